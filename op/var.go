package op

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// Var returns the variance over dims, which are dropped; no dims means all.
func Var(x *Tensor, dims ...int) *Tensor {
	return apply1(variance{Dims: normDims(len(x.Shape()), dims)}, x)
}

// SampleVar is like Var, divided by one less than the number of elements, which is unbiased for a sample.
func SampleVar(x *Tensor, dims ...int) *Tensor {
	return apply1(variance{Dims: normDims(len(x.Shape()), dims), Unbiased: true}, x)
}

type variance struct {
	Dims     []int
	Unbiased bool
}

func (variance) Name() string { return "var" }

func (o variance) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 1); err != nil {
		return nil, err
	}
	return inferReduced(in, o.Dims, in[0].DType)
}

// degrees returns the divisor of the sum of squares.
func (o variance) degrees(shape array.Shape) float64 {
	n := 1
	for _, d := range o.Dims {
		n *= shape[d]
	}
	if o.Unbiased {
		n--
	}
	return float64(max(n, 0)) // a sample of one or none has no variance: NaN
}

// deviation returns the difference of each element from the mean.
func (o variance) deviation(x *Tensor) *Tensor {
	return Sub(x, keepDims(Mean(x, o.Dims...), x, o.Dims))
}

func (o variance) VJP(in, _, dy []*Tensor) []*Tensor {
	x := wide(in[0])
	slope := MulScalar(o.deviation(x), 2/o.degrees(x.Shape()))
	return []*Tensor{Cast(Mul(slope, keepDims(wide(dy[0]), x, o.Dims)), in[0].DType())}
}

func (o variance) Decompose(in []*Tensor) []*Tensor {
	squares := Sum(Square(o.deviation(wide(in[0]))), o.Dims...)
	return []*Tensor{Cast(Div(squares, Const(squares, o.degrees(in[0].Shape()))), in[0].DType())}
}

func (o variance) Rule(in []Type) mesh.Rule { return wholeReduceRule(len(in[0].Shape), o.Dims) }

func (variance) Work(in, out []Type) Work {
	return Work{Flops: 4 * float64(in[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o variance) Eval(env *Env, in, out []array.Array) {
	x, g := in[0], group{outer: in[0].Len(), reduced: 1, inner: 1}
	if gs := groups(x.Shape(), o.Dims); len(gs) == 1 {
		g = gs[0]
	} else if len(gs) > 1 {
		x, g = o.gathered(env, x)
	}
	float(out[0],
		func() { varianceOver[float32](env, x, out[0], g, o.degrees(in[0].Shape())) },
		func() { varianceOver[float64](env, x, out[0], g, o.degrees(in[0].Shape())) })
}

// gathered returns x with the reduced dims moved to the end, if they are not adjacent.
func (o variance) gathered(env *Env, x array.Array) (array.Array, group) {
	var perm []int
	g := group{outer: 1, reduced: 1, inner: 1}
	for d, n := range x.Shape() {
		if !slices.Contains(o.Dims, d) {
			perm, g.outer = append(perm, d), g.outer*n
		}
	}
	for _, d := range o.Dims {
		perm, g.reduced = append(perm, d), g.reduced*x.Shape()[d]
	}
	shape := make(array.Shape, len(perm))
	for i, p := range perm {
		shape[i] = x.Shape()[p]
	}
	to := array.New(x.DType(), shape...)
	permuteInto(env, to, x, perm)
	return to, g
}

func varianceOver[T floats](env *Env, x, out array.Array, g group, degrees float64) {
	dst := array.Data[T](out)
	foldLines(env, array.Data[T](x), g, func(at int, line []T) {
		dst[at] = T(squaredDistance(line, kernel.Sum(line)/T(len(line))) / degrees)
	})
}

// squaredDistance returns the sum of squared distances from mean, in pieces that fit the first-level cache.
func squaredDistance[T floats](line []T, mean T) float64 {
	var buf [1024]T
	total := 0.0
	for len(line) > 0 {
		piece := buf[:min(len(line), len(buf))]
		kernel.AddScalar(piece, line[:len(piece)], -mean)
		total += float64(kernel.SumSquares(piece))
		line = line[len(piece):]
	}
	return total
}

func (o variance) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (variance) Samples() []Sample {
	samples := reductionSamples(f32, func(dims ...int) Op { return variance{Dims: dims} })
	return append(samples, Sample{Op: variance{Dims: []int{1}, Unbiased: true}, In: []Arg{f32(5, 7, 6)}})
}
