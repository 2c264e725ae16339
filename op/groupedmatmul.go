package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// GroupedMatMul multiplies each group of rows of x [T, K] by a matrix of its own: the first sizes[0] rows by
// w[0], the next sizes[1] by w[1], and so on, with w [E, K, N] and sizes integers [E]. Rows after the last
// group give zeros.
func GroupedMatMul(x, w, sizes *Tensor) *Tensor { return apply1(groupedMatMul{}, x, w, sizes) }

// GroupedMatMulT is like GroupedMatMul with the matrices stored as [E, N, K].
func GroupedMatMulT(x, w, sizes *Tensor) *Tensor {
	return apply1(groupedMatMul{TransW: true}, x, w, sizes)
}

// groupedMatMul is the product in a mixture of experts whose rows are sorted by expert. TransW means that the
// matrices are [E, N, K]. With Part it has a shard of the rows, those from Row on, of Rows, and of the
// matrices, those from Expert on. Rows of other experts give zeros, so that the results of all shards can be
// summed.
type groupedMatMul struct {
	TransW            bool
	Part              bool
	Row, Rows, Expert int
}

func (o groupedMatMul) part(rows, experts int) groupPart {
	return newGroupPart(groupPart{o.Part, o.Row, o.Rows, o.Expert, rows, experts})
}

func (groupedMatMul) Name() string    { return "grouped_matmul" }
func (groupedMatMul) Linear() [][]int { return [][]int{{0}, {1}} }
func (groupedMatMul) halfNative()     {}

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
	if !o.part(x[0], w[0]).fits(in[2].Shape[0]) {
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

// dims returns the rows and columns of each matrix.
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
	p := o.part(in[0].Dim(0), in[1].Dim(0))
	return []*Tensor{Einsum(equation, spreadGroups(in[0], in[2], p), in[1])}
}

// spreadGroups returns x [T, K] once for each group as [E, T, K], with zeros in the rows of other groups.
func spreadGroups(x, sizes *Tensor, p groupPart) *Tensor {
	wide := Cast(sizes, array.I64)
	all := CumSum(wide, 0)
	ends := Narrow(all, 0, p.expert, p.expert+p.experts)
	starts := Narrow(Sub(all, wide), 0, p.expert, p.expert+p.experts)
	row := x.Scope().Apply(iotaOp{DType: array.I64, Shape: []int{1, x.Dim(0)}, Dim: 1, Offset: p.row}, nil)[0]
	before := func(ends *Tensor) *Tensor { return Cast(Less(row, Reshape(ends, -1, 1)), x.DType()) }
	return Einsum("et,tk->etk", Sub(before(ends), before(starts)), x)
}

func (o groupedMatMul) VJP(in, _, dout []*Tensor) []*Tensor {
	x, w, sizes, d := in[0], in[1], in[2], dout[0]
	back, g := o, groupedMatMulGradW{Part: o.Part, Row: o.Row, Rows: o.Rows, Expert: o.Expert}
	back.TransW = !o.TransW
	if o.Part {
		g.Experts = w.Dim(0)
	}
	dx := apply1(back, d, w, sizes)
	if o.TransW {
		return []*Tensor{dx, apply1(g, d, x, sizes), nil}
	}
	return []*Tensor{dx, apply1(g, x, d, sizes), nil}
}

// Rule does not let the sizes be split, because the start of a group depends on all groups before it. Shards
// of rows and of matrices know their offsets.
func (o groupedMatMul) Rule([]Type) mesh.Rule {
	if o.TransW {
		return "tk,enk,f*->tn"
	}
	return "tk,ekn,f*->tn"
}

func (o groupedMatMul) Localize(at *Place) (Op, error) {
	p := o.part(at.In[0].Shape[0], at.In[1].Shape[0]).at(at.InRange(0, 0), at.InRange(1, 0))
	return groupedMatMul{TransW: o.TransW, Part: true, Row: p.row, Rows: p.total, Expert: p.expert}, nil
}

// Work assumes that every row belongs to a group.
func (o groupedMatMul) Work(in, out []Type) Work {
	return Work{Flops: 2 * float64(in[0].Shape[1]) * float64(out[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o groupedMatMul) Eval(env *Env, in, out []array.Array) {
	spans := o.part(in[0].Shape()[0], in[1].Shape()[0]).spans(o, in[2])
	switch out[0].DType() {
	case array.F64:
		evalGroupedMatMul(env, o, in, spans, array.Data[float64](out[0]), operand64)
	case array.F32:
		evalGroupedMatMul(env, o, in, spans, array.Data[float32](out[0]), operand32)
	default: // 16-bit floats: accumulate in float32, round once
		sum := array.New(array.F32, out[0].Shape()...)
		evalGroupedMatMul(env, o, in, spans, array.Data[float32](sum), operand32)
		castInto(env, out[0], sum)
	}
}

// asOperand makes a kernel operand of part of an array, from its first element, the elements per row, and
// whether it is transposed.
type asOperand[T floats] func(a array.Array, from, ld int, t kernel.Trans) kernel.Operand[T]

func evalGroupedMatMul[T floats](env *Env, o groupedMatMul, in []array.Array, spans []span, y []T,
	at asOperand[T]) {
	k, n := o.dims(in[1].Shape())
	ldw, trans := n, kernel.NoTrans
	if o.TransW {
		ldw, trans = k, kernel.Transpose
	}
	clearBetween(y, spans, n)
	env.Pool.For(len(spans), 1, func(lo, hi int) {
		for e := lo; e < hi; e++ {
			kernel.Gemm[T]{
				M: spans[e].end - spans[e].start, N: n, K: k, C: y[spans[e].start*n:],
				A: at(in[0], spans[e].start*k, k, kernel.NoTrans), B: at(in[1], e*k*n, ldw, trans),
			}.Run(env.Pool)
		}
	})
}

// groupSizes returns a sample operand of sizes below n.
func groupSizes(n, groups int) Arg { return i32Below(n, groups) }

func (groupedMatMul) Samples() []Sample {
	return []Sample{
		{In: []Arg{f32(12, 7), f32(4, 7, 6), groupSizes(4, 4)}},
		{Op: groupedMatMul{TransW: true}, In: []Arg{f32(12, 7), f32(4, 6, 7), groupSizes(4, 4)}},
		{In: []Arg{f32(120, 33), f32(3, 33, 17), groupSizes(41, 3)}},
		{Op: groupedMatMul{Part: true, Row: 2, Rows: 12, Expert: 1},
			In: []Arg{f32(7, 3), f32(2, 3, 6), groupSizes(4, 4)}},
	}
}

// groupedMatMulGradW computes xᵀ·y for each group of rows of x [T, K] and y [T, N], as [E, K, N]. A shard has
// Experts matrices from Expert on, computed from the rows from Row on, of Rows.
type groupedMatMulGradW struct {
	Part                       bool
	Row, Rows, Expert, Experts int
}

func (o groupedMatMulGradW) part(rows, experts int) groupPart {
	return newGroupPart(groupPart{o.Part, o.Row, o.Rows, o.Expert, rows, experts})
}

// experts returns the number of matrices of the result.
func (o groupedMatMulGradW) experts(sizes array.Shape) int {
	if o.Part {
		return o.Experts
	}
	return sizes[0]
}

func (groupedMatMulGradW) Name() string    { return "grouped_matmul_grad_w" }
func (groupedMatMulGradW) Linear() [][]int { return [][]int{{0}, {1}} }
func (groupedMatMulGradW) halfNative()     {}

func (o groupedMatMulGradW) Infer(in []Type) ([]Type, error) {
	if err := wantGroups(in); err != nil {
		return nil, err
	}
	x, y := in[0].Shape, in[1].Shape
	if len(x) != 2 || len(y) != 2 || x[0] != y[0] {
		return nil, fmt.Errorf("want as many rows on both sides: got %v and %v", in[0], in[1])
	}
	n := o.experts(in[2].Shape)
	if n < 0 || !o.part(x[0], n).fits(in[2].Shape[0]) {
		return nil, fmt.Errorf("group sizes %v do not fit %d matrices", in[2], n)
	}
	return []Type{{DType: in[0].DType, Shape: array.Shape{n, x[1], y[1]}}}, nil
}

func (o groupedMatMulGradW) Decompose(in []*Tensor) []*Tensor {
	p := o.part(in[0].Dim(0), o.experts(in[2].Shape()))
	return []*Tensor{Einsum("etk,tn->ekn", spreadGroups(in[0], in[2], p), in[1])}
}

func (o groupedMatMulGradW) VJP(in, _, dout []*Tensor) []*Tensor {
	x, y, sizes, d := in[0], in[1], in[2], dout[0]
	g := groupedMatMul{Part: o.Part, Row: o.Row, Rows: o.Rows, Expert: o.Expert}
	back := g
	back.TransW = true
	return []*Tensor{apply1(back, y, d, sizes), apply1(g, x, d, sizes), nil}
}

// Rule sums over parts of the rows; the sizes must not be split, as for the product.
func (groupedMatMulGradW) Rule([]Type) mesh.Rule { return "tk,tn,f*->ekn" }

func (o groupedMatMulGradW) Localize(at *Place) (Op, error) {
	experts := at.OutRange(0, 0)
	p := o.part(at.In[0].Shape[0], at.Out[0].Shape[0]).at(at.InRange(0, 0), experts)
	return groupedMatMulGradW{Part: true, Row: p.row, Rows: p.total, Expert: p.expert,
		Experts: experts.Size}, nil
}

// Work assumes that every row belongs to a group.
func (groupedMatMulGradW) Work(in, out []Type) Work {
	return Work{Flops: 2 * float64(in[0].Shape.Len()) * float64(in[1].Shape[1]), Bytes: moved(in, out)}
}

func (o groupedMatMulGradW) Eval(env *Env, in, out []array.Array) {
	spans := o.part(in[0].Shape()[0], out[0].Shape()[0]).spans(o, in[2])
	switch out[0].DType() {
	case array.F64:
		evalGroupedGradW(env, in, spans, array.Data[float64](out[0]), operand64)
	case array.F32:
		evalGroupedGradW(env, in, spans, array.Data[float32](out[0]), operand32)
	default: // 16-bit floats: accumulate in float32, round once
		sum := array.New(array.F32, out[0].Shape()...)
		evalGroupedGradW(env, in, spans, array.Data[float32](sum), operand32)
		castInto(env, out[0], sum)
	}
}

func evalGroupedGradW[T floats](env *Env, in []array.Array, spans []span, w []T, at asOperand[T]) {
	k, n := in[0].Shape()[1], in[1].Shape()[1]
	env.Pool.For(len(spans), 1, func(lo, hi int) {
		for e := lo; e < hi; e++ {
			kernel.Gemm[T]{
				M: k, N: n, K: spans[e].end - spans[e].start, C: w[e*k*n:],
				A: at(in[0], spans[e].start*k, k, kernel.Transpose), B: at(in[1], spans[e].start*n, n, kernel.NoTrans),
			}.Run(env.Pool)
		}
	})
}

func (groupedMatMulGradW) Samples() []Sample {
	return []Sample{
		{In: []Arg{f32(12, 7), f32(12, 6), groupSizes(4, 4)}},
		{In: []Arg{f32(120, 33), f32(120, 17), groupSizes(41, 3)}},
		{Op: groupedMatMulGradW{Part: true, Row: 2, Rows: 12, Expert: 1, Experts: 2},
			In: []Arg{f32(7, 3), f32(7, 6), groupSizes(4, 4)}},
	}
}
