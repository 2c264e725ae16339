package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// attentionGrad is the gradients of q, k and v from q, k, v, attention's two results, the gradient of the first and
// with LSEGrad that of the second; then come attention's further operands. As a function of all these it is
// differentiated again; what the results owe to q, k and v is attention's own affair.
type attentionGrad struct {
	Causal        bool
	Scale         float64
	Window        int
	Offset        int
	Segments      bool
	DynamicOffset bool
	LSEGrad       bool
}

func (attentionGrad) Name() string       { return "attention_grad" }
func (attentionGrad) NumResults(int) int { return 3 }

// forward is the op that this is the gradient of.
func (o attentionGrad) forward() attention {
	return attention{Causal: o.Causal, Scale: o.Scale, Window: o.Window, Offset: o.Offset,
		Segments: o.Segments, DynamicOffset: o.DynamicOffset}
}

// fixed is how many operands come before attention's further ones.
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
	q, k, v, out, lse, dout := wide(in[0]), wide(in[1]), wide(in[2]), wide(in[3]), wide(in[4]), wide(in[5])
	f, groups := o.forward(), k.Dim(2)
	s, rows := f.scores(q, k, in[o.fixed():]), headRows(lse, groups)
	weights := Exp(Sub(s, Where(Equal(rows, hiddenScore(rows)), Const(rows, 0), rows)))
	delta := Transpose(Sum(Mul(dout, out), -1))
	if o.LSEGrad {
		delta = Sub(delta, wide(in[6]))
	}
	dout = splitHeads(dout, groups)
	dweights := Einsum("bsgre,btge->bgrst", dout, v)
	ds := MulScalar(Mul(weights, Sub(dweights, headRows(delta, groups))), f.scale(q.Shape()))
	dq := Reshape(Einsum("bgrst,btgd->bsgrd", ds, k), q.Shape()...)
	dk := Einsum("bgrst,bsgrd->btgd", ds, splitHeads(q, groups))
	dv := Einsum("bgrst,bsgre->btge", weights, dout)
	return []*Tensor{Cast(dq, in[0].DType()), Cast(dk, in[1].DType()), Cast(dv, in[2].DType())}
}

func (o attentionGrad) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

// Rule sums the gradients of keys and values over whatever splits the queries, and that of queries over whatever
// splits the keys, since lse is known. They are sums over the parts of values, too, unless lse has a gradient of its
// own, which must count once.
func (o attentionGrad) Rule(in []Type) mesh.Rule {
	e := "e"
	if o.LSEGrad {
		e = "e*"
	}
	w := o.forward().words(in[0].Shape, in[1].Shape, "t", e)
	text := w.q + "," + w.k + "," + w.v + "," + w.out + "," + w.lse + "," + w.out
	if o.LSEGrad {
		text += "," + w.lse
	}
	return mesh.Rule(text + w.extras + "->" + w.q + "," + w.k + "," + w.v + w.notes)
}

func (o attentionGrad) Localize(at *Place) (Op, error) {
	o.Offset += positionShift(at)
	return o, nil
}

func (o attentionGrad) Work(in, out []Type) Work {
	q, k, v := in[0].Shape, in[1].Shape, in[2].Shape
	products := 3*q[3] + 2*v[3] // scores, dq and dk; dweights and dv
	return Work{Flops: o.forward().pairs(q, k) * float64(2*products+2*softmaxFlops), Bytes: moved(in, out)}
}

func (o attentionGrad) Eval(env *Env, in, out []array.Array) {
	float(out[0],
		func() { runAttentionGrad[float32](env, o, in, out) },
		func() { runAttentionGrad[float64](env, o, in, out) })
}

func runAttentionGrad[T floats](env *Env, o attentionGrad, in, out []array.Array) {
	g := kernel.AttentionGrad[T]{
		Out: array.Data[T](in[3]), LSE: array.Data[T](in[4]), DOut: array.Data[T](in[5]),
		DQ: array.Data[T](out[0]), DK: array.Data[T](out[1]), DV: array.Data[T](out[2]),
	}
	if o.LSEGrad {
		g.DLSE = array.Data[T](in[6])
	}
	attentionKernel[T](o.forward(), in[:3], in[o.fixed():]).Backward(env.Pool, g)
}

// Emit is by cuDNN or by blocks, as attention's own.
func (o attentionGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	if !o.LSEGrad && o.forward().fused(w, in[:3]) {
		return o.emitFused(w, in, out)
	}
	return o.emitBlocks(w, in, out)
}

func (attentionGrad) Samples() []Sample {
	var samples []Sample
	for _, o := range []attentionGrad{
		{}, {Causal: true, LSEGrad: true}, {Window: 3}, {Causal: true, Offset: -2}, {Segments: true},
		{Causal: true, DynamicOffset: true, Segments: true, LSEGrad: true},
	} {
		samples = append(samples, Sample{Op: o, In: o.sample(5, 7, 4, 2)}, Sample{Op: o, In: o.sample(6, 6, 2, 2)})
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
