package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// MatMul returns the matrix product over the last two dims, with the dims before them broadcast together. A
// vector is a row on the left and a column on the right, and that dim is dropped from the result.
func MatMul(x, y *Tensor) *Tensor { return MatMulT(x, y, false, false) }

// MatMulT is like MatMul with the last two dims of x (transX) or y (transY) transposed, at no cost.
func MatMulT(x, y *Tensor, transX, transY bool) *Tensor {
	rowX, colY := len(x.Shape()) == 1 && x.Err() == nil, len(y.Shape()) == 1 && y.Err() == nil
	if rowX {
		x, transX = Reshape(x, 1, x.Dim(0)), false
	}
	if colY {
		y, transY = Reshape(y, y.Dim(0), 1), false
	}
	z := apply1(matmul{TransX: transX, TransY: transY}, x, y)
	if !rowX && !colY || z.Err() != nil {
		return z
	}
	shape := z.Shape()[:len(z.Shape())-2].Clone()
	if !rowX {
		shape = append(shape, z.Dim(-2))
	}
	if !colY {
		shape = append(shape, z.Dim(-1))
	}
	return Reshape(z, shape...)
}

// matmul with Zeros looks for zeros at the ends of x's rows, and skips their terms where that changes no bit.
type matmul struct{ TransX, TransY, Zeros bool }

func (matmul) Name() string    { return "matmul" }
func (o matmul) Role() any     { return MatMulRole{TransX: o.TransX, TransY: o.TransY} }
func (matmul) Linear() [][]int { return [][]int{{0}, {1}} }
func (matmul) halfNative()     {}

// SkipZeros returns the op with Zeros.
func (o matmul) SkipZeros() Op {
	o.Zeros = true
	return o
}

// dims returns the sizes of one product.
func (o matmul) dims(x, y array.Shape) (m, k, k2, n int) {
	m, k = x[len(x)-2], x[len(x)-1]
	if o.TransX {
		m, k = k, m
	}
	k2, n = y[len(y)-2], y[len(y)-1]
	if o.TransY {
		k2, n = n, k2
	}
	return m, k, k2, n
}

func (o matmul) Infer(in []Type) ([]Type, error) {
	if err := wantSums(in, 2); err != nil {
		return nil, err
	}
	x, y := in[0].Shape, in[1].Shape
	if len(x) < 2 || len(y) < 2 {
		return nil, fmt.Errorf("want matrices: got %v and %v", in[0], in[1])
	}
	m, k, k2, n := o.dims(x, y)
	if k != k2 {
		return nil, fmt.Errorf("cannot contract %v with %v: sizes %d and %d", x, y, k, k2)
	}
	batch, err := broadcastShapes(x[:len(x)-2], y[:len(y)-2])
	if err != nil {
		return nil, err
	}
	return []Type{{DType: in[0].DType, Shape: append(batch, m, n)}}, nil
}

func (o matmul) VJP(in, _, dz []*Tensor) []*Tensor {
	x, y, d := in[0], in[1], dz[0]
	if len(y.Shape()) == 2 && len(x.Shape()) > 2 && !o.TransX {
		return []*Tensor{MatMulT(d, y, false, !o.TransY), o.sharedGrad(x, d)}
	}
	var dx, dy *Tensor
	if o.TransX {
		dx = MatMulT(y, d, o.TransY, true)
	} else {
		dx = MatMulT(d, y, false, !o.TransY)
	}
	if o.TransY {
		dy = MatMulT(d, x, true, o.TransX)
	} else {
		dy = MatMulT(x, d, !o.TransX, false)
	}
	return []*Tensor{SumTo(dx, x.Shape()), SumTo(dy, y.Shape())}
}

// sharedGrad returns the gradient of a matrix that the whole batch shares as one product over batch and rows.
// A product for each batch element and a sum would write the gradient many times.
func (o matmul) sharedGrad(x, d *Tensor) *Tensor {
	lead := factors(0, len(x.Shape())-1)
	k, n := "Y", "Z"
	out := k + n
	if o.TransY {
		out = n + k
	}
	return Einsum(lead+k+","+lead+n+"->"+out, x, d)
}

func (o matmul) Rule(in []Type) mesh.Rule {
	x, y := in[0].Shape, in[1].Shape
	batch, err := broadcastShapes(x[:len(x)-2], y[:len(y)-2])
	if err != nil {
		return mesh.Unknown
	}
	mk, kn := "MK", "KN"
	if o.TransX {
		mk = "KM"
	}
	if o.TransY {
		kn = "NK"
	}
	return mesh.Rule(broadcastWord(x[:len(x)-2], batch) + mk + "," + broadcastWord(y[:len(y)-2], batch) + kn +
		"->" + broadcastWord(batch, batch) + "MN")
}

func (o matmul) Work(in, out []Type) Work {
	_, k, _, _ := o.dims(in[0].Shape, in[1].Shape)
	return Work{Flops: 2 * float64(k) * float64(out[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o matmul) Eval(env *Env, in, out []array.Array) {
	x, y := in[0], in[1]
	m, k, _, n := o.dims(x.Shape(), y.Shape())
	batch := out[0].Shape()[:len(out[0].Shape())-2]
	if len(y.Shape()) == 2 && !o.TransX { // a shared right side: the batch is only more rows
		m, batch = m*batch.Len(), nil
	}
	p := product{
		m: m, n: n, k: k, transX: o.TransX, transY: o.TransY, x: x, y: y, out: out[0],
		xs: newBatch(batch, x.Shape(), m*k), ys: newBatch(batch, y.Shape(), k*n),
		zs: newBatch(batch, out[0].Shape(), m*n), count: batch.Len(), zeros: o.Zeros,
	}
	p.run(env)
}

// batch locates each matrix of a batch, in elements.
type batch struct {
	shape   array.Shape
	strides []int
}

// newBatch locates contiguous matrices of size elements each.
func newBatch(out, operand array.Shape, size int) batch {
	lead := operand[:len(operand)-2]
	if len(out) == 0 {
		lead = nil
	}
	b := batch{shape: out, strides: broadcastStrides(lead, out)}
	for d := range b.strides {
		b.strides[d] *= size
	}
	return b
}

// at returns the offset of the matrix that element i of the batch uses.
func (b batch) at(i int) int {
	n := 0
	for d := len(b.shape) - 1; d >= 0; d-- {
		n += i % b.shape[d] * b.strides[d]
		i /= b.shape[d]
	}
	return n
}

// step returns the stride of the batch if it is evenly spaced.
func (b batch) step(count int) (int, bool) {
	if count == 1 {
		return 0, true
	}
	step := b.at(1)
	for i := range count {
		if b.at(i) != i*step {
			return 0, false
		}
	}
	return step, true
}

// product is a batch of matrix products on arrays.
type product struct {
	m, n, k        int
	transX, transY bool
	x, y, out      array.Array
	// ldx, ldy and ldz are the row strides as stored, in elements; 0 means contiguous rows.
	ldx, ldy, ldz int
	xs, ys, zs    batch
	count         int
	zeros         bool // rows of x may begin or end with zeros
}

func (p product) run(env *Env) {
	if p.out.Len() == 0 {
		return
	}
	switch p.out.DType() {
	case array.F64:
		runProduct(env, p, array.Data[float64](p.out), operand64)
	case array.F32:
		runProduct(env, p, array.Data[float32](p.out), operand32)
	case array.I64:
		intProduct[int64](env, p)
	case array.I32:
		intProduct[int32](env, p)
	default: // 16-bit floats: accumulate in float32, round once
		wide := array.New(array.F32, p.out.Shape()...)
		runProduct(env, p, array.Data[float32](wide), operand32)
		castInto(env, p.out, wide)
	}
}

// intProduct multiplies integer matrices, with wraparound.
func intProduct[T integer](env *Env, p product) {
	x, y, z := array.Data[T](p.x), array.Data[T](p.y), array.Data[T](p.out)
	rowX, stepX, rowY, stepY := p.k, 1, p.n, 1
	if p.transX {
		rowX, stepX = 1, p.m
	}
	if p.transY {
		rowY, stepY = 1, p.k
	}
	env.rows(p.count*p.m, p.n*p.k, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			i, row := r/p.m, z[r*p.n:][:p.n]
			a, b := p.xs.at(i)+r%p.m*rowX, p.ys.at(i)
			clear(row)
			for l := range p.k {
				for j := range row {
					row[j] += x[a+l*stepX] * y[b+l*rowY+j*stepY]
				}
			}
		}
	})
}

func operand64(a array.Array, from, ld int, t kernel.Trans) kernel.Operand[float64] {
	return kernel.Dense(array.Data[float64](a)[from:], ld, t)
}

func operand32(a array.Array, from, ld int, t kernel.Trans) kernel.Operand[float32] {
	switch a.DType() {
	case array.BF16:
		return kernel.DenseBF16(array.Raw[uint16](a)[from:], ld, t)
	case array.F16:
		return kernel.DenseF16(array.Raw[uint16](a)[from:], ld, t)
	}
	return kernel.Dense(array.Data[float32](a)[from:], ld, t)
}

func runProduct[T floats](env *Env, p product, c []T,
	at func(array.Array, int, int, kernel.Trans) kernel.Operand[T]) {
	trans := func(yes bool) kernel.Trans {
		if yes {
			return kernel.Transpose
		}
		return kernel.NoTrans
	}
	gemm := kernel.Gemm[T]{M: p.m, N: p.n, K: p.k, A: at(p.x, 0, p.ldx, trans(p.transX)),
		B: at(p.y, 0, p.ldy, trans(p.transY)), C: c, LDC: p.ldz,
		Zeros: p.zeros}
	if p.count == 1 {
		gemm.Run(env.Pool)
		return
	}
	all := kernel.GemmBatch[T]{Gemm: gemm, Batch: p.count}
	var even [3]bool
	all.StrideA, even[0] = p.xs.step(p.count)
	all.StrideB, even[1] = p.ys.step(p.count)
	all.StrideC, even[2] = p.zs.step(p.count)
	if even != [3]bool{true, true, true} {
		all.At = func(i int) [3]int { return [3]int{p.xs.at(i), p.ys.at(i), p.zs.at(i)} }
	}
	all.Run(env.Pool)
}

func (o matmul) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{o.emitSum(w, in[0], in[1], out[0])}
}

// emitSum writes the product. A matrix that a whole batch shares is not broadcast: the batch is only more
// rows.
func (o matmul) emitSum(w *hlo.Writer, x, y hlo.Ref, out Type) hlo.Ref {
	rank := len(out.Shape)
	if len(y.Shape) == 2 && !o.TransX {
		ky := 0
		if o.TransY {
			ky = 1
		}
		return w.Dot(x, y, nil, nil, []int{len(x.Shape) - 1}, []int{ky}, hloType(out))
	}
	batch, lead := out.Shape[:rank-2], upTo(rank-2)
	side := func(x hlo.Ref) hlo.Ref {
		shape := append(batch.Clone(), x.Shape[len(x.Shape)-2:]...)
		return emitBroadcast(w, x, Type{DType: x.DType, Shape: shape})
	}
	kx, ky := rank-1, rank-2
	if o.TransX {
		kx = rank - 2
	}
	if o.TransY {
		ky = rank - 1
	}
	return w.Dot(side(x), side(y), lead, lead, []int{kx}, []int{ky}, hloType(out))
}

func (matmul) Samples() []Sample {
	return []Sample{
		{In: []Arg{f32(5, 7), f32(7, 6)}},
		{In: []Arg{f32(2, 1, 5, 7), f32(3, 7, 6)}},
		{In: []Arg{f32(2, 3, 5, 7), f32(7, 6)}},
		{Op: matmul{TransY: true}, In: []Arg{f32(2, 5, 7), f32(6, 7)}},
		{Op: matmul{TransX: true}, In: []Arg{f32(2, 7, 5), f32(2, 7, 6)}},
		{Op: matmul{Zeros: true}, In: []Arg{f32(2, 5, 7), f32(2, 7, 6)}},
		{Op: matmul{TransX: true, TransY: true}, In: []Arg{f32(7, 5), f32(6, 7)}},
		{Op: matmul{TransY: true}, In: []Arg{i32Below(9, 3, 5, 6), i32Below(9, 3, 7, 6)}},
	}
}
