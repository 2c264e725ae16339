package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// attentionGrad computes the gradients of q, k and v. Its operands are q, k, v, the two results of attention,
// the gradient of the first and, with LSEGrad, that of the second, followed by attention's further operands.
// Its own gradient treats all operands as independent; that attention's results depend on q, k and v is
// accounted for by attention's gradient.
type attentionGrad struct {
	Causal        bool
	Scale         float64
	Cap           float64
	Window        int
	Offset        int
	Segments      bool
	DynamicOffset bool
	LSEGrad       bool
	Context       string
	Zigzag        int
}

func (attentionGrad) Name() string       { return "attention_grad" }
func (attentionGrad) NumResults(int) int { return 3 }

// forward returns the op whose gradient this is.
func (o attentionGrad) forward() attention {
	return attention{Causal: o.Causal, Scale: o.Scale, Cap: o.Cap, Window: o.Window, Offset: o.Offset,
		Segments: o.Segments, DynamicOffset: o.DynamicOffset, Context: o.Context, Zigzag: o.Zigzag}
}

// fixed returns the number of operands before attention's further ones.
func (o attentionGrad) fixed() int {
	if o.LSEGrad {
		return 7
	}
	return 6
}

func (o attentionGrad) Infer(in []Type) ([]Type, error) {
	n := o.fixed()
	if want := n + o.forward().extras(); len(in) != want {
		return nil, fmt.Errorf("want %d operands: got %d", want, len(in))
	}
	if err := wantCompute(in[:n], n); err != nil {
		return nil, err
	}
	operands := append([]Type{in[0], in[1], in[2]}, in[n:]...)
	out, err := o.forward().Infer(operands)
	if err != nil {
		return nil, err
	}
	for i, t := range in[3:n] {
		if want := out[i%2].Shape; !t.Shape.Equal(want) {
			return nil, fmt.Errorf("results and gradients of attention: got %v: want %v", t, want)
		}
	}
	return []Type{in[0], in[1], in[2]}, nil
}

func (o attentionGrad) Decompose(in []*Tensor) []*Tensor {
	at, key := o.forward().places(in[0], in[1], in[o.fixed():])
	return o.decomposeAt(in, at, key)
}

// decomposeAt returns the definition for queries and keys at the given positions.
func (o attentionGrad) decomposeAt(in []*Tensor, at, key *Tensor) []*Tensor {
	q, k, v, out, lse, dout := wide(in[0]), wide(in[1]), wide(in[2]), wide(in[3]), wide(in[4]), wide(in[5])
	f, groups := o.forward(), k.Dim(2)
	s, rows := f.scoresAt(q, k, in[o.fixed():], at, key), headRows(lse, groups)
	weights := Exp(Sub(s, Where(Equal(rows, hiddenScore(rows)), Const(rows, 0), rows)))
	delta := Transpose(Sum(Mul(dout, out), -1))
	if o.LSEGrad {
		delta = Sub(delta, wide(in[6]))
	}
	dout = splitHeads(dout, groups)
	dweights := Einsum("bsgre,btge->bgrst", dout, v)
	ds := MulScalar(Mul(weights, Sub(dweights, headRows(delta, groups))), f.scale(q.Shape()))
	if o.Cap != 0 {
		ds = Mul(ds, f.capSlope(q, k))
	}
	dq := Reshape(Einsum("bgrst,btgd->bsgrd", ds, k), q.Shape()...)
	dk := Einsum("bgrst,bsgrd->btgd", ds, splitHeads(q, groups))
	dv := Einsum("bgrst,bsgre->btge", weights, dout)
	return []*Tensor{Cast(dq, in[0].DType()), Cast(dk, in[1].DType()), Cast(dv, in[2].DType())}
}

func (o attentionGrad) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

// Rule sums the gradients of keys and values over the axes that split the queries, and those of queries over
// the axes that split the keys, which is possible because lse is given. They are sums over parts of the
// values' dim, too, unless lse has a gradient, which must be counted only once.
func (o attentionGrad) Rule(in []Type) mesh.Rule {
	e, t := "e", "t"
	if o.LSEGrad {
		e = "e*"
	}
	s := o.forward().seq()
	if s != "s" {
		t = "t*"
	}
	w := o.forward().words(in[0].Shape, in[1].Shape, s, t, e)
	return mesh.Rule(o.operands(w) + "->" + w.q + "," + w.k + "," + w.v + w.notes)
}

// operands returns the factors of the operands in a rule.
func (o attentionGrad) operands(w attentionWords) string {
	text := w.q + "," + w.k + "," + w.v + "," + w.out + "," + w.lse + "," + w.out
	if o.LSEGrad {
		text += "," + w.lse
	}
	return text + w.extras
}

func (o attentionGrad) Localize(at *Place) (Op, error) {
	o.Offset += positionShift(at)
	return o, nil
}

// Attends returns the sizes that its operands have.
func (attentionGrad) Attends(in []Type) (queries, keys, dim int) { return attends(in) }

func (o attentionGrad) Work(in, out []Type) Work {
	return Work{Flops: o.forward().pairs(in[0].Shape, in[1].Shape) * o.pairFlops(in), Bytes: moved(in, out)}
}

// pairFlops returns the flops of one pair of query and key.
func (o attentionGrad) pairFlops(in []Type) float64 {
	products := 3*in[0].Shape[3] + 2*in[2].Shape[3] // scores, dq and dk; dweights and dv
	return float64(2*products + 2*softmaxFlops)
}

func (o attentionGrad) Eval(env *Env, in, out []array.Array) {
	float(out[0],
		func() { runAttentionGrad[float32](env, o, in, out) },
		func() { runAttentionGrad[float64](env, o, in, out) })
}

func runAttentionGrad[T floats](env *Env, o attentionGrad, in, out []array.Array) {
	g, f := gradArrays[T](o, in, out), o.forward()
	a := attentionKernel[T](f, in[:3], in[o.fixed():])
	if o.Zigzag == 0 {
		a.Backward(env.Pool, g)
		return
	}
	for _, y := range out {
		clear(y.Bytes())
	}
	rows := f.zigzagRows(a.SeqQ)
	backSpans(env, f, a, rows, rows, g)
}

// Emit uses cuDNN's kernel or blocks, as attention does.
func (o attentionGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	if o.Zigzag != 0 {
		return emitByParts(o, w, in, out)
	}
	if a, ok := o.forward().fused(w, in[:3]); ok && !o.LSEGrad {
		return o.emitFused(w, a, in, out)
	}
	return o.emitBlocks(w, in, out)
}

func (attentionGrad) Samples() []Sample {
	var samples []Sample
	for _, o := range []attentionGrad{
		{}, {Causal: true, LSEGrad: true}, {Window: 3}, {Causal: true, Offset: -2}, {Segments: true},
		{Causal: true, DynamicOffset: true, Segments: true, LSEGrad: true}, {Causal: true, Cap: 0.7}, {Cap: 1.5,
			LSEGrad: true},
	} {
		samples = append(samples, Sample{Op: o, In: o.sample(5, 7, 4, 2)}, Sample{Op: o, In: o.sample(6, 6, 2, 2)})
	}
	for _, o := range []attentionGrad{{Causal: true, Zigzag: 2},
		{Causal: true, Window: 7, Zigzag: 3, LSEGrad: true, Context: ContextRing},
		{Causal: true, LSEGrad: true, Context: ContextUlysses}, {Causal: true, Zigzag: 2,
			Context: ContextGather}, {Segments: true,
			Context: ContextUlysses}, {Causal: true, Zigzag: 2, Cap: 1.2, Context: ContextRing}} {
		samples = append(samples, Sample{Op: o, In: o.sample(12, o.forward().sampleKeys(12), 8, 4)})
	}
	return samples
}

func (o attentionGrad) sample(seqQ, seqK, heads, kvHeads int) []Arg {
	in := o.forward().sample(seqQ, seqK, heads, kvHeads)
	out, lse := f32(2, seqQ, heads, 3), f32In(1, 2, 2, heads, seqQ)
	args := append(in[:3:3], out, lse, out)
	if o.LSEGrad {
		args = append(args, f32(2, heads, seqQ))
	}
	return append(args, in[3:]...)
}
