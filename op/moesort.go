package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// MoESort sorts the expert ids [n] that a router chose: order [n] lists the positions of the ids by expert,
// in their original order within each expert, and counts [experts] is the number of ids of each expert.
// Taking rows in that order makes the groups of GroupedMatMul.
func MoESort(ids *Tensor, experts int) (order, counts *Tensor) {
	r := ir.Apply(moeSort{Experts: experts}, ids)
	return r[0], r[1]
}

type moeSort struct{ Experts int }

func (moeSort) Name() string                    { return "moe_sort" }
func (moeSort) NoGradient() string              { return "its operand is integers" }
func (moeSort) VJP(_, _, _ []*Tensor) []*Tensor { return []*Tensor{nil} }

func (o moeSort) Infer(in []Type) ([]Type, error) {
	switch {
	case len(in) != 1 || len(in[0].Shape) != 1:
		return nil, fmt.Errorf("want a list of expert ids: got %v", in)
	case o.Experts < 1:
		return nil, fmt.Errorf("experts is %d: want at least 1", o.Experts)
	}
	list := func(n int) Type { return Type{DType: array.I64, Shape: array.Shape{n}} }
	return []Type{list(in[0].Shape[0]), list(o.Experts)}, wantIndices(in[0])
}

func (o moeSort) Decompose(in []*Tensor) []*Tensor {
	_, order := Sort(in[0], 0)
	counts := Sum(Cast(OneHot(in[0], o.Experts), array.F64), 0)
	return []*Tensor{order, Cast(counts, array.I64)}
}

func (moeSort) Rule([]Type) mesh.Rule { return "n*->n*,e*" }

func (moeSort) Work(in, out []Type) Work { return Work{Bytes: moved(in, out)} }

func (o moeSort) Eval(_ *Env, in, out []array.Array) {
	ids := readIndices(o, in[0], o.Experts)
	order, counts := array.Data[int64](out[0]), array.Data[int64](out[1])
	clear(counts)
	for _, e := range ids {
		counts[e]++
	}
	next := make([]int64, o.Experts)
	for e := 1; e < o.Experts; e++ {
		next[e] = next[e-1] + counts[e-1]
	}
	for i, e := range ids {
		order[next[e]] = int64(i)
		next[e]++
	}
}

// Emit counts in 32 bits, which the number of ids fits.
func (o moeSort) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	order := emitSort(w, in[0], sort{})[1]
	t := hlo.Type{DType: array.I32, Shape: array.Shape{in[0].Shape[0], o.Experts}}
	ids := w.Broadcast(w.Convert(in[0], array.I32), t.Shape, []int{0})
	hits := w.Convert(w.Compare("EQ", ids, emitIota(w, t, 1)), array.I32)
	counts := w.Reduce("add", hits, 0, []int{0}, hlo.Type{DType: array.I32, Shape: out[1].Shape})
	return []hlo.Ref{order, w.Convert(counts, array.I64)}
}

func (moeSort) Samples() []Sample {
	return []Sample{{Op: moeSort{Experts: 5}, In: []Arg{i32Below(5, 23)}},
		{Op: moeSort{Experts: 3}, In: []Arg{i32Below(1, 4)}}}
}
