package kernel

//go:generate go -C gen run ./vector -out ../vec_amd64.s -stubs ../vec_stubs_amd64.go -pkg kernel

// Float is the set of element types the kernels compute in.
type Float interface{ float32 | float64 }

// Conventions of every kernel in the vec, reduce, softmax, norm, crossentropy
// and adamw files: the length of the first destination is the length of the
// loop, a shorter operand panics, and a destination may be the very same slice
// as an operand but must not overlap one at another offset. Nothing here starts
// a goroutine; callers split rows or elements over a Pool.

// simd and simd64 hold the kernels of the best instruction set found at start-up.
// A nil field means that the plain loop is used.
var simd, simd64 = bestTables()

// namedTable is the tables of an instruction set with its name.
type namedTable struct {
	name    string
	table   table32
	doubles table64
}

// bestTables returns the last of the tables this processor can run.
func bestTables() (table32, table64) {
	all := tables()
	best := all[len(all)-1]
	return best.table, best.doubles
}

// tables lists what this processor can run, from plain to fastest.
func tables() []namedTable {
	return append([]namedTable{{name: "plain"}}, vectorTables()...)
}

// table32 is one instruction set's float32 kernels. The zero table is the plain
// implementation.
type table32 struct {
	exp, log, tanh, erf, sigmoid, silu, gelu, geluTanh func(dst, x []float32)
	expm1, log1p, softplus                             func(dst, x []float32)
	sqrt, rsqrt, reciprocal, neg, abs, square, relu    func(dst, x []float32)

	geluGrad, geluTanhGrad, siluGrad, swiGLU func(dst, x, y []float32)
	swiGLUGrad                               func(dgate, dup, gate, up, dy []float32)

	add, sub, mul, div, max, min func(dst, x, y []float32)
	mulAdd                       func(dst, x, y, z []float32)
	addScalar, mulScalar, axpy   func(dst, x []float32, c float32)

	sum, sumSquares, maxOf, minOf func(x []float32) float32
	sumSqDev                      func(x []float32, mean float32) float32
	dot                           func(x, y []float32) float32
	addRows                       func(dst, src []float32, rows, stride int)

	softmaxRow  func(dst, x []float32)
	expSum      func(x []float32, shift float32) float32
	expSumStore func(dst, x []float32, shift float32) float32
	expAffine   func(dst, x []float32, shift, scale, bias float32)
	shift2      func(dst, x []float32, a, b float32)
	softmaxGrad func(dx, y, dy []float32, dot float32)

	norm        func(y, x []float32, mean, rstd float32)
	normGamma   func(y, x, gamma []float32, mean, rstd float32)
	normAffine  func(y, x, gamma, beta []float32, mean, rstd float32)
	normSums    func(x, dy []float32, mean, rstd float32) (sumG, sumGX float32)
	normSumsAcc func(dgamma, x, gamma, dy []float32, mean, rstd float32) (sumG, sumGX float32)
	normGrad    func(dx, x, dy []float32, mean, rstd, a, b float32)
	normGradG   func(dx, x, gamma, dy []float32, mean, rstd, a, b float32)

	adamW func(pOut, mOut, vOut, p, g, m, v []float32, c [8]float32)

	philoxUniform func(dst []float32, key [2]uint32, block uint64)
	philoxWords   func(dst []uint32, key [2]uint32, block uint64, third uint32)
}

// table64 is one instruction set's float64 kernels.
type table64 struct {
	exp, log, tanh, sigmoid, erf, sin, cos func(dst, x []float64)
	lanes                                  int
}

// as32 returns x as a float32 slice, or nil when T is float64.
func as32[T Float](x []T) []float32 {
	v, _ := any(x).([]float32)
	return v
}

// inVectors runs f over dst and x and reports true if there is an f and T is its type.
func inVectors[V, T Float](f func(dst, x []V), dst, x []T) bool {
	d, ok := any(dst).([]V)
	if f == nil || !ok {
		return false
	}
	f(d, any(x).([]V))
	return true
}

// binary32 is like inVectors for float32 kernels of two operands.
func binary32[T Float](f func(dst, x, y []float32), dst, x, y []T) bool {
	if f == nil {
		return false
	}
	d := as32(dst)
	if d == nil {
		return false
	}
	f(d, as32(x), as32(y))
	return true
}

// scalar32 is like inVectors for kernels of one operand and one constant.
func scalar32[T Float](f func(dst, x []float32, c float32), dst, x []T, c T) bool {
	if f == nil {
		return false
	}
	d := as32(dst)
	if d == nil {
		return false
	}
	f(d, as32(x), float32(c))
	return true
}

// mapPlain is the reference loop dst[i] = f(x[i]).
func mapPlain[T Float](dst, x []T, f func(T) T) {
	for i := range dst {
		dst[i] = f(x[i])
	}
}
