package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cuda"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/triton"
	"github.com/galley-ml/galley/mesh"
)

// crossEntropyGrad computes the gradient of the logits from logits, labels, each row's log-sum-exp and the
// gradient of the loss: of the sum, or of each row. It may overwrite the logits, which are by far the largest
// activation of a language model.
//
// On a shard it has the classes from Offset on, of Total; a Total of 0 means all of them.
type crossEntropyGrad struct {
	IgnoreIndex    int
	LabelSmoothing float64
	Offset, Total  int
}

func (o crossEntropyGrad) part(classes int) rowPart { return rowPart{classes, o.Offset, o.Total} }

// classes returns the number of all classes, given that of the shard.
func (o crossEntropyGrad) classes(n int) int {
	if o.Total != 0 {
		return o.Total
	}
	return n
}

func (crossEntropyGrad) Name() string   { return "cross_entropy_grad" }
func (o crossEntropyGrad) Role() any    { return CrossEntropyGradRole{o} }
func (crossEntropyGrad) InPlace() []int { return []int{0} }
func (crossEntropyGrad) halfNative()    {}

func (o crossEntropyGrad) Infer(in []Type) ([]Type, error) {
	if err := inferLabels(in, 4); err != nil {
		return nil, err
	}
	if _, n := rowsOf(in[0].Shape); !o.part(n).fits() {
		return nil, fmt.Errorf("%v has no classes from %d on of %d", in[0], o.Offset, o.Total)
	}
	if err := wantCompute([]Type{in[0], in[2], in[3]}, 3); err != nil {
		return nil, err
	}
	rows := in[1].Shape
	if !in[2].Shape.Equal(rows) {
		return nil, fmt.Errorf("log-sum-exp %v does not fit the rows of logits %v", in[2], in[0])
	}
	if len(in[3].Shape) != 0 && !in[3].Shape.Equal(rows) {
		return nil, fmt.Errorf("loss gradient %v does not fit the rows of logits %v", in[3], in[0])
	}
	return []Type{in[0]}, nil
}

func (o crossEntropyGrad) Decompose(in []*Tensor) []*Tensor {
	x, dloss := wide(in[0]), wide(in[3])
	hot := Cast(apply1(oneHot{NumClasses: x.Dim(-1), Offset: o.Offset}, in[1]), array.Bool)
	counts := crossEntropy{IgnoreIndex: o.IgnoreIndex}.counts(in[1])
	uniform := o.LabelSmoothing / float64(o.classes(x.Dim(-1)))
	target := AddScalar(MulScalar(Cast(hot, x.DType()), 1-o.LabelSmoothing), uniform)
	// A mean over no rows has an infinite slope, which must not be multiplied by the zeros of ignored rows.
	dloss = Where(counts, dloss, Const(dloss, 0))
	d := Mul(Sub(Exp(Sub(x, lastOf(wide(in[2]), x))), target), lastOf(dloss, x))
	return []*Tensor{Cast(Where(lastOf(counts, x), d, Const(d, 0)), in[0].DType())}
}

func (o crossEntropyGrad) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

// Rule lets the classes be split, because lse, the only coupling between them, is given.
func (crossEntropyGrad) Rule(in []Type) mesh.Rule {
	word, lead := factors(0, len(in[0].Shape)), factors(0, len(in[1].Shape))
	dloss := factors(0, len(in[3].Shape))
	return mesh.Rule(word + "," + lead + "," + lead + "," + dloss + "->" + word)
}

func (o crossEntropyGrad) Localize(at *Place) (Op, error) {
	start, total := at.localRows(0, len(at.In[1].Shape), o.Total)
	o.Offset, o.Total = o.Offset+start, total
	return o, nil
}

func (crossEntropyGrad) Work(in, out []Type) Work {
	return Work{Flops: 4 * float64(in[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o crossEntropyGrad) Eval(env *Env, in, out []array.Array) {
	_, n := rowsOf(in[0].Shape())
	labels := labelsOf(o.Name(), in[1], o.IgnoreIndex, o.classes(n))
	for i, l := range labels { // labels of classes on other shards become n
		if l >= 0 && (l < o.Offset || l >= o.Offset+n) {
			labels[i] = n
		} else if l >= 0 {
			labels[i] = l - o.Offset
		}
	}
	if out[0].DType() == array.F64 {
		evalCrossEntropyGrad[float64](env, o, in, labels, out[0])
		return
	}
	evalCrossEntropyGrad[float32](env, o, in, labels, out[0])
}

func evalCrossEntropyGrad[T floats](env *Env, o crossEntropyGrad, in []array.Array, labels []int,
	out array.Array) {
	rows, n := rowsOf(in[0].Shape())
	lse, dloss := array.Data[T](widen(env, in[2])), array.Data[T](widen(env, in[3]))
	step := 1
	if len(in[3].Shape()) == 0 {
		step = 0
	}
	env.Pool.For(rows, max(labelRows, grain/max(n, 1)), func(lo, hi int) {
		row, half := rowReader[T](in[0], n), out.DType().IsHalf()
		for i := lo; i < hi; i++ {
			x := row(i)
			dst := x // a buffer if logits have 16 bits
			if !half {
				dst = array.Data[T](out)[i*n : (i+1)*n]
			}
			kernel.CrossEntropyGradPart(dst, x, labels[i], o.classes(n), lse[i], dloss[i*step], T(o.LabelSmoothing))
			if half {
				castHalf(rowView(out, n, i), array.FromSlice(dst, n), 0, n)
			}
		}
	})
}

// Emit writes one elementwise pass over the logits: the softmax is recomputed from lse, and no wide tensor is
// kept.
func (o crossEntropyGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	x := w.Convert(in[0], in[0].DType.Compute())
	last := len(x.Shape) - 1
	rows := func(y hlo.Ref) hlo.Ref { return w.Broadcast(y, x.Shape, upTo(len(y.Shape))) }
	lse, dloss := w.Convert(in[2], x.DType), o.emitRows(w, in)
	target := o.target(x.Shape[last])
	if n := dloss.Shape.Len(); w.Kernels() && in[0].DType.IsHalf() && in[0].DType == out[0].DType && n > 0 &&
		x.Shape[last] > 0 {
		k := triton.SoftmaxGrad(in[0].DType, n, x.Shape[last], target)
		return cuda.CallTriton(w, k, []hlo.Ref{in[0], o.emitLabels(w, in[1]), lse, dloss}, hloType(out[0]))
	}
	p := w.Op("exponential", "", x.Type, w.Op("subtract", "", x.Type, x, rows(lse)))
	want := w.Op("select", "", x.Type, emitHot(w, in[1], x.Shape, o.Offset),
		w.Constant(x.Type, target.Hot), w.Constant(x.Type, target.Even))
	d := w.Op("multiply", "", x.Type, w.Op("subtract", "", x.Type, p, want), rows(dloss))
	return []hlo.Ref{w.Convert(d, out[0].DType)}
}

// target describes the one-hot or smoothed target of the softmax over classes, of which there may be more on
// other shards.
func (o crossEntropyGrad) target(classes int) triton.Target {
	even := o.LabelSmoothing / float64(o.classes(classes))
	return triton.Target{Hot: 1 - o.LabelSmoothing + even, Even: even}
}

// emitRows returns the gradient of each row's loss, 0 for ignored rows.
func (o crossEntropyGrad) emitRows(w *hlo.Writer, in []hlo.Ref) hlo.Ref {
	row := hlo.Type{DType: in[0].DType.Compute(), Shape: in[1].Shape}
	dloss := w.Convert(in[3], row.DType)
	if len(dloss.Shape) < len(row.Shape) {
		dloss = w.Broadcast(dloss, row.Shape, nil)
	}
	counts := crossEntropy{IgnoreIndex: o.IgnoreIndex}.emitCounts(w, in[1])
	return w.Op("select", "", row, counts, dloss, w.Constant(row, 0))
}

// emitLabels returns the labels as i32, counted from the shard's first class.
func (o crossEntropyGrad) emitLabels(w *hlo.Writer, labels hlo.Ref) hlo.Ref {
	return rowPart{offset: o.Offset}.emitLocal(w, w.Convert(labels, array.I32))
}

func (crossEntropyGrad) Samples() []Sample {
	return []Sample{
		{Op: crossEntropyGrad{IgnoreIndex: -100}, In: []Arg{f32(5, 7, 6), i32Below(6, 5, 7), f32(5, 7), f32()}},
		{Op: crossEntropyGrad{IgnoreIndex: 1, LabelSmoothing: 0.1},
			In: []Arg{f32(150, 19), i32Below(19, 150), f32(150), f32(150)}},
		{Op: crossEntropyGrad{IgnoreIndex: -100}, In: []Arg{f32(5), i32Below(5), f32(), f32()}},
		{Op: crossEntropyGrad{IgnoreIndex: 1, LabelSmoothing: 0.1, Offset: 4, Total: 15},
			In: []Arg{f32(9, 7), i32Below(15, 9), f32(9), f32()}},
	}
}
