package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// GroupedMatMul multiplies each group of rows of x [T, K] by a matrix of its own: the first sizes[0] rows by w[0],
// the next sizes[1] by w[1], and so on, with w [E, K, N] and sizes integers [E]. Rows after the last group give
// zeros.
func GroupedMatMul(x, w, sizes *Tensor) *Tensor { return apply1(groupedMatMul{}, x, w, sizes) }

// GroupedMatMulT is GroupedMatMul with the matrices stored as [E, N, K].
func GroupedMatMulT(x, w, sizes *Tensor) *Tensor {
	return apply1(groupedMatMul{TransW: true}, x, w, sizes)
}

// groupedMatMul is what a mixture of experts computes, its rows sorted by expert. TransW means that the matrices
// are [E, N, K].
type groupedMatMul struct{ TransW bool }

func (groupedMatMul) Name() string { return "grouped_matmul" }
func (groupedMatMul) halfNative()  {}

func (o groupedMatMul) Infer(in []Type) ([]Type, error) {
	if err := wantGroups(in); err != nil {
		return nil, err
	}
	x, w := in[0].Shape, in[1].Shape
	if len(x) != 2 || len(w) != 3 {
		return nil, fmt.Errorf("want rows and a matrix for each group: got %v and %v", in[0], in[1])
	}
	k, n := o.dims(w)
	if x[1] != k {
		return nil, fmt.Errorf("cannot contract %v with %v: sizes %d and %d", x, w, x[1], k)
	}
	if w[0] != in[2].Shape[0] {
		return nil, fmt.Errorf("group sizes %v do not fit %d matrices %v", in[2], w[0], in[1])
	}
	return []Type{{DType: in[0].DType, Shape: array.Shape{x[0], n}}}, nil
}

// wantGroups checks two float operands of one dtype and the sizes of groups.
func wantGroups(in []Type) error {
	if len(in) != 3 {
		return fmt.Errorf("want 3 operands: got %d", len(in))
	}
	if err := wantFloats(in[:2], 2); err != nil {
		return err
	}
	if len(in[2].Shape) != 1 {
		return fmt.Errorf("want a list of group sizes: got %v", in[2])
	}
	return wantIndices(in[2])
}

// dims is the rows and columns of each matrix.
func (o groupedMatMul) dims(w array.Shape) (k, n int) {
	if o.TransW {
		return w[2], w[1]
	}
	return w[1], w[2]
}

func (o groupedMatMul) Decompose(in []*Tensor) []*Tensor {
	equation := "etk,ekn->tn"
	if o.TransW {
		equation = "etk,enk->tn"
	}
	return []*Tensor{Einsum(equation, spreadGroups(in[0], in[2]), in[1])}
}

// spreadGroups is x [T, K] once for each group [E, T, K], with zeros in the rows of the others.
func spreadGroups(x, sizes *Tensor) *Tensor {
	wide := Cast(sizes, array.I64)
	ends := CumSum(wide, 0)
	starts := Sub(ends, wide)
	row := Iota(x.Scope(), array.I64, array.Shape{1, x.Dim(0)}, 1)
	before := func(ends *Tensor) *Tensor { return Cast(Less(row, Reshape(ends, -1, 1)), x.DType()) }
	return Einsum("et,tk->etk", Sub(before(ends), before(starts)), x)
}

func (o groupedMatMul) VJP(in, _, dout []*Tensor) []*Tensor {
	x, w, sizes, d := in[0], in[1], in[2], dout[0]
	dx := apply1(groupedMatMul{TransW: !o.TransW}, d, w, sizes)
	if o.TransW {
		return []*Tensor{dx, apply1(groupedMatMulGradW{}, d, x, sizes), nil}
	}
	return []*Tensor{dx, apply1(groupedMatMulGradW{}, x, d, sizes), nil}
}

// Rule keeps rows and groups whole: where a group begins depends on all that precede it.
func (o groupedMatMul) Rule([]Type) mesh.Rule {
	if o.TransW {
		return "t*k,e*nk,e*->t*n"
	}
	return "t*k,e*kn,e*->t*n"
}

// Work counts every row as part of a group.
func (o groupedMatMul) Work(in, out []Type) Work {
	return Work{Flops: 2 * float64(in[0].Shape[1]) * float64(out[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o groupedMatMul) Eval(env *Env, in, out []array.Array) {
	starts := groupStarts(o, in[2], in[0].Shape()[0])
	switch out[0].DType() {
	case array.F64:
		evalGroupedMatMul(env, o, in, starts, array.Data[float64](out[0]), operand64)
	case array.F32:
		evalGroupedMatMul(env, o, in, starts, array.Data[float32](out[0]), operand32)
	default: // 16-bit floats: accumulate in float32, round once
		sum := array.New(array.F32, out[0].Shape()...)
		evalGroupedMatMul(env, o, in, starts, array.Data[float32](sum), operand32)
		castInto(env, out[0], sum)
	}
}

// groupStarts is the first row of each group, and the row after the last. It panics with an *IndexError if the
// groups have more rows than there are.
func groupStarts(o Op, sizes array.Array, rows int) []int {
	starts := make([]int, 1, sizes.Len()+1)
	end := 0
	for _, n := range readIndices(o, sizes, rows+1) {
		if end += n; end > rows {
			panic(&IndexError{Op: o.Name(), Index: end, Limit: rows + 1})
		}
		starts = append(starts, end)
	}
	return starts
}

// asOperand is how a kernel reads part of an array: the first element, the elements in a row, and how it enters.
type asOperand[T floats] func(a array.Array, from, ld int, t kernel.Trans) kernel.Operand[T]

func evalGroupedMatMul[T floats](env *Env, o groupedMatMul, in []array.Array, starts []int, y []T, at asOperand[T]) {
	groups := len(starts) - 1
	k, n := o.dims(in[1].Shape())
	ldw, trans := n, kernel.NoTrans
	if o.TransW {
		ldw, trans = k, kernel.Transpose
	}
	clear(y[starts[groups]*n:])
	env.Pool.For(groups, 1, func(lo, hi int) {
		for e := lo; e < hi; e++ {
			kernel.Gemm[T]{
				M: starts[e+1] - starts[e], N: n, K: k, C: y[starts[e]*n:],
				A: at(in[0], starts[e]*k, k, kernel.NoTrans), B: at(in[1], e*k*n, ldw, trans),
			}.Run(env.Pool)
		}
	})
}

func (o groupedMatMul) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return emitByParts(o, w, in)
}

// groupSizes is a sample operand of sizes below n.
func groupSizes(n, groups int) Arg { return i32Below(n, groups) }

func (groupedMatMul) Samples() []Sample {
	return []Sample{
		{In: []Arg{f32(12, 7), f32(4, 7, 6), groupSizes(4, 4)}},
		{Op: groupedMatMul{TransW: true}, In: []Arg{f32(12, 7), f32(4, 6, 7), groupSizes(4, 4)}},
		{In: []Arg{f32(120, 33), f32(3, 33, 17), groupSizes(41, 3)}},
	}
}

// groupedMatMulGradW is xᵀ·y for each group of rows of x [T, K] and y [T, N]: [E, K, N].
type groupedMatMulGradW struct{}

func (groupedMatMulGradW) Name() string { return "grouped_matmul_grad_w" }
func (groupedMatMulGradW) halfNative()  {}

func (groupedMatMulGradW) Infer(in []Type) ([]Type, error) {
	if err := wantGroups(in); err != nil {
		return nil, err
	}
	x, y := in[0].Shape, in[1].Shape
	if len(x) != 2 || len(y) != 2 || x[0] != y[0] {
		return nil, fmt.Errorf("want as many rows on both sides: got %v and %v", in[0], in[1])
	}
	return []Type{{DType: in[0].DType, Shape: array.Shape{in[2].Shape[0], x[1], y[1]}}}, nil
}

func (groupedMatMulGradW) Decompose(in []*Tensor) []*Tensor {
	return []*Tensor{Einsum("etk,tn->ekn", spreadGroups(in[0], in[2]), in[1])}
}

func (groupedMatMulGradW) VJP(in, _, dout []*Tensor) []*Tensor {
	x, y, sizes, d := in[0], in[1], in[2], dout[0]
	return []*Tensor{GroupedMatMulT(y, d, sizes), GroupedMatMul(x, d, sizes), nil}
}

func (groupedMatMulGradW) Rule([]Type) mesh.Rule { return "t*k,t*n,e*->e*kn" }

// Work counts every row as part of a group.
func (groupedMatMulGradW) Work(in, out []Type) Work {
	return Work{Flops: 2 * float64(in[0].Shape.Len()) * float64(in[1].Shape[1]), Bytes: moved(in, out)}
}

func (o groupedMatMulGradW) Eval(env *Env, in, out []array.Array) {
	starts := groupStarts(o, in[2], in[0].Shape()[0])
	switch out[0].DType() {
	case array.F64:
		evalGroupedGradW(env, in, starts, array.Data[float64](out[0]), operand64)
	case array.F32:
		evalGroupedGradW(env, in, starts, array.Data[float32](out[0]), operand32)
	default: // 16-bit floats: accumulate in float32, round once
		sum := array.New(array.F32, out[0].Shape()...)
		evalGroupedGradW(env, in, starts, array.Data[float32](sum), operand32)
		castInto(env, out[0], sum)
	}
}

func evalGroupedGradW[T floats](env *Env, in []array.Array, starts []int, w []T, at asOperand[T]) {
	k, n := in[0].Shape()[1], in[1].Shape()[1]
	env.Pool.For(len(starts)-1, 1, func(lo, hi int) {
		for e := lo; e < hi; e++ {
			kernel.Gemm[T]{
				M: k, N: n, K: starts[e+1] - starts[e], C: w[e*k*n:],
				A: at(in[0], starts[e]*k, k, kernel.Transpose), B: at(in[1], starts[e]*n, n, kernel.NoTrans),
			}.Run(env.Pool)
		}
	})
}

func (o groupedMatMulGradW) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return emitByParts(o, w, in)
}

func (groupedMatMulGradW) Samples() []Sample {
	return []Sample{
		{In: []Arg{f32(12, 7), f32(12, 6), groupSizes(4, 4)}},
		{In: []Arg{f32(120, 33), f32(120, 17), groupSizes(41, 3)}},
	}
}
