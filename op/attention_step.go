package op

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// attentionStep extends an attention by further keys. Its operands are q, k, v, with Segments the segment
// ids, and out and lse of an attention over other keys; its results are out and lse over all of these keys.
// Queries and Keys hold the positions of the rows of q and k as pairs of start and size.
type attentionStep struct {
	Causal        bool
	Scale         float64
	Cap           float64
	Window        int
	Segments      bool
	Queries, Keys []int
}

func (attentionStep) Name() string       { return "attention_step" }
func (attentionStep) NumResults(int) int { return 2 }
func (o attentionStep) InPlace() []int   { return []int{o.fixed(), o.fixed() + 1} }

// forward returns the attention of which this is one step.
func (o attentionStep) forward() attention {
	return attention{Causal: o.Causal, Scale: o.Scale, Cap: o.Cap, Window: o.Window, Segments: o.Segments}
}

// fixed returns the number of operands before out and lse.
func (o attentionStep) fixed() int { return 3 + o.forward().extras() }

func (o attentionStep) Infer(in []Type) ([]Type, error) {
	n := o.fixed()
	if len(in) != n+2 {
		return nil, fmt.Errorf("want %d operands: got %d", n+2, len(in))
	}
	out, err := o.forward().Infer(in[:n])
	if err != nil {
		return nil, err
	}
	if err := checkRanges(in, o.Queries, o.Keys); err != nil {
		return nil, err
	}
	return accumulatedTypes(in[0], in[n:], out)
}

// accumulatedTypes checks the accumulated results in before against the types that the op would compute, and
// returns their types.
func accumulatedTypes(q Type, before, out []Type) ([]Type, error) {
	for i, t := range before {
		if t.DType.Compute() != q.DType.Compute() || !t.Shape.Equal(out[i].Shape) {
			return nil, fmt.Errorf("what came before: got %v: want %v", t, out[i])
		}
		out[i].DType = t.DType
	}
	return out, nil
}

// checkRanges checks the ranges of positions against the rows of q and k.
func checkRanges(in []Type, queries, keys []int) error {
	for i, list := range [][]int{queries, keys} {
		if len(list) == 0 || len(list)%2 != 0 || rangesLen(list) != in[i].Shape[1] {
			return fmt.Errorf("positions %v do not fit the rows of %v", list, in[i])
		}
	}
	return nil
}

func (o attentionStep) Decompose(in []*Tensor) []*Tensor {
	f, n := o.forward(), o.fixed()
	q, k, v, out, lse := wide(in[0]), wide(in[1]), wide(in[2]), wide(in[n]), wide(in[n+1])
	groups := k.Dim(2)
	s := f.scoresAt(q, k, in[3:n], rangePositions(q.Scope(), o.Queries), rangePositions(q.Scope(), o.Keys))
	before := headRows(lse, groups)
	top := Maximum(StopGradient(lastOf(AMax(s, -1), s)), StopGradient(before))
	top = Where(Equal(top, hiddenScore(top)), Const(top, 0), top)
	e, kept := Exp(Sub(s, top)), Exp(Sub(before, top))
	sum := Add(lastOf(Sum(e, -1), e), kept)
	empty := Equal(sum, Const(sum, 0))
	safe := Where(empty, Const(sum, 1), sum)
	old := Transpose(splitHeads(out, groups), 0, 2, 3, 1, 4)
	y := Add(Einsum("bgrst,btge->bgrse", Div(e, safe), v), Mul(old, Div(kept, safe)))
	y = Reshape(Transpose(y, 0, 3, 1, 2, 4), out.Shape()...)
	total := Where(empty, hiddenScore(sum), Add(Log(safe), top))
	return []*Tensor{Cast(y, in[n].DType()), Cast(Reshape(total, lse.Shape()...), in[n+1].DType())}
}

func (o attentionStep) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

func (o attentionStep) Rule(in []Type) mesh.Rule {
	w := o.forward().words(in[0].Shape, in[1].Shape, "s*", "t*", "e*")
	return mesh.Rule(w.q + "," + w.k + "," + w.v + w.extras + "," + w.out + "," + w.lse + "->" + w.out + "," +
		w.lse + w.notes)
}

// Attends returns the sizes that its operands have.
func (attentionStep) Attends(in []Type) (queries, keys, dim int) { return attends(in) }

func (o attentionStep) Work(in, out []Type) Work {
	q, k, v := in[0].Shape, in[1].Shape, in[2].Shape
	return Work{Flops: o.forward().spanPairs(q, k, o.Queries, o.Keys) * float64(2*(q[3]+v[3])+softmaxFlops),
		Bytes: moved(in, out)}
}

func (o attentionStep) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { runAttentionStep[float32](env, o, in, out) },
		func() { runAttentionStep[float64](env, o, in, out) })
}

func runAttentionStep[T floats](env *Env, o attentionStep, in, out []array.Array) {
	n := o.fixed()
	copyBytes(env, out[0], in[n])
	copyBytes(env, out[1], in[n+1])
	a := attentionKernel[T](o.forward(), in[:3], in[3:n])
	attendSpans(env, o.forward(), a, o.Queries, o.Keys, array.Data[T](out[0]), array.Data[T](out[1]))
}

func (o attentionStep) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (attentionStep) Samples() []Sample {
	var samples []Sample
	for _, o := range []attentionStep{
		{Queries: []int{0, 6}, Keys: []int{0, 5}},
		{Causal: true, Cap: 1.1, Queries: []int{4, 2, 8, 4}, Keys: []int{2, 3, 9, 2}},
		{Window: 3, Segments: true, Queries: []int{6, 6}, Keys: []int{4, 2, 9, 3}},
	} {
		samples = append(samples, Sample{Op: o, In: o.sample(4, 2)})
	}
	return samples
}

func (o attentionStep) sample(heads, kvHeads int) []Arg {
	f := attention{}
	in := f.sample(rangesLen(o.Queries), rangesLen(o.Keys), heads, kvHeads)
	seqQ, seqK := in[0].Type.Shape[1], in[1].Type.Shape[1]
	if o.Segments {
		in = append(in, i32Below(2, 2, seqQ), i32Below(2, 2, seqK))
	}
	return append(in, f32(2, seqQ, heads, 3), f32In(1, 2, 2, heads, seqQ))
}

// emptyAttention returns out and lse as they are before the first step of queries q and values v.
func emptyAttention(q, v *Tensor) (out, lse *Tensor) {
	t := q.DType().Compute()
	out = Full(q.Scope(), t, array.Shape{q.Dim(0), q.Dim(1), q.Dim(2), v.Dim(3)}, 0)
	return out, Full(q.Scope(), t, array.Shape{q.Dim(0), q.Dim(2), q.Dim(1)}, math.Inf(-1))
}
