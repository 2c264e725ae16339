package op

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// attentionGradStep computes attention_grad for some of the keys and adds it to the gradients of q, k and v
// that are its last operands. Positions are given as for attention_step.
type attentionGradStep struct {
	Causal        bool
	Scale         float64
	Cap           float64
	Window        int
	Segments      bool
	LSEGrad       bool
	Queries, Keys []int
}

func (attentionGradStep) Name() string       { return "attention_grad_step" }
func (attentionGradStep) NumResults(int) int { return 3 }

func (o attentionGradStep) InPlace() []int {
	n := o.fixed()
	return []int{n, n + 1, n + 2}
}

// whole returns the gradient op of which this is one step.
func (o attentionGradStep) whole() attentionGrad {
	return attentionGrad{Causal: o.Causal, Scale: o.Scale, Cap: o.Cap, Window: o.Window, Segments: o.Segments,
		LSEGrad: o.LSEGrad}
}

// fixed returns the number of operands before the gradients.
func (o attentionGradStep) fixed() int { return o.whole().fixed() + o.whole().forward().extras() }

func (o attentionGradStep) Infer(in []Type) ([]Type, error) {
	n := o.fixed()
	if len(in) != n+3 {
		return nil, fmt.Errorf("want %d operands: got %d", n+3, len(in))
	}
	out, err := o.whole().Infer(in[:n])
	if err != nil {
		return nil, err
	}
	if err := checkRanges(in, o.Queries, o.Keys); err != nil {
		return nil, err
	}
	return accumulatedTypes(in[0], in[n:], out)
}

func (o attentionGradStep) Decompose(in []*Tensor) []*Tensor {
	n := o.fixed()
	g := o.whole()
	at, key := rangePositions(in[0].Scope(), o.Queries), rangePositions(in[0].Scope(), o.Keys)
	step := g.decomposeAt(in[:n], at, key)
	for i := range step {
		step[i] = Add(in[n+i], Cast(step[i], in[n+i].DType()))
	}
	return step
}

func (o attentionGradStep) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

// Rule does not let heads be split that share keys: each part would add to the same gradients.
func (o attentionGradStep) Rule(in []Type) mesh.Rule {
	w := o.whole().forward().words(in[0].Shape, in[1].Shape, "s*", "t*", "e*")
	grads := w.q + "," + w.k + "," + w.v
	text := o.whole().operands(w) + "," + grads + "->" + grads + w.notes
	return mesh.Rule(strings.ReplaceAll(text, "(gr)", "(gr*)"))
}

// Attends returns the sizes that its operands have.
func (attentionGradStep) Attends(in []Type) (queries, keys, dim int) { return attends(in) }

func (o attentionGradStep) Work(in, out []Type) Work {
	pairs := o.whole().forward().spanPairs(in[0].Shape, in[1].Shape, o.Queries, o.Keys)
	return Work{Flops: pairs * o.whole().pairFlops(in), Bytes: moved(in, out)}
}

func (o attentionGradStep) Eval(env *Env, in, out []array.Array) {
	float(out[0],
		func() { runAttentionGradStep[float32](env, o, in, out) },
		func() { runAttentionGradStep[float64](env, o, in, out) })
}

func runAttentionGradStep[T floats](env *Env, o attentionGradStep, in, out []array.Array) {
	n, g := o.fixed(), o.whole()
	for i := range out {
		copyBytes(env, out[i], in[n+i])
	}
	a := attentionKernel[T](g.forward(), in[:3], in[g.fixed():n])
	backSpans(env, g.forward(), a, o.Queries, o.Keys, gradArrays[T](g, in, out))
}

// gradArrays returns the operands and results of an attention's gradient for the kernel.
func gradArrays[T floats](o attentionGrad, in, out []array.Array) kernel.AttentionGrad[T] {
	g := kernel.AttentionGrad[T]{
		Out: array.Data[T](in[3]), LSE: array.Data[T](in[4]), DOut: array.Data[T](in[5]),
		DQ: array.Data[T](out[0]), DK: array.Data[T](out[1]), DV: array.Data[T](out[2]),
	}
	if o.LSEGrad {
		g.DLSE = array.Data[T](in[6])
	}
	return g
}

func (o attentionGradStep) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (attentionGradStep) Samples() []Sample {
	var samples []Sample
	for _, o := range []attentionGradStep{
		{Queries: []int{0, 6}, Keys: []int{0, 5}},
		{Causal: true, Cap: 1.1, LSEGrad: true, Queries: []int{4, 2, 8, 4}, Keys: []int{2, 3, 9, 2}},
		{Window: 3, Segments: true, Queries: []int{6, 6}, Keys: []int{4, 2, 9, 3}},
	} {
		samples = append(samples, Sample{Op: o, In: o.sample(4, 2)})
	}
	return samples
}

func (o attentionGradStep) sample(heads, kvHeads int) []Arg {
	seqQ, seqK := rangesLen(o.Queries), rangesLen(o.Keys)
	in := attentionGrad{LSEGrad: o.LSEGrad}.sample(seqQ, seqK, heads, kvHeads)
	if o.Segments {
		in = append(in, i32Below(2, 2, seqQ), i32Below(2, 2, seqK))
	}
	return append(in, in[0], in[1], in[2])
}
