package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// crossEntropyGrad is the gradient of the logits from logits, labels, each row's log-sum-exp and the gradient of
// the loss, of the sum or of each row. It may be written over the logits, which are by far a language model's
// largest activation.
type crossEntropyGrad struct {
	IgnoreIndex    int
	LabelSmoothing float64
}

func (crossEntropyGrad) Name() string   { return "cross_entropy_grad" }
func (crossEntropyGrad) InPlace() []int { return []int{0} }
func (crossEntropyGrad) halfNative()    {}

func (crossEntropyGrad) Infer(in []Type) ([]Type, error) {
	if err := inferLabels(in, 4); err != nil {
		return nil, err
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
	hot, counts := crossEntropy{IgnoreIndex: o.IgnoreIndex}.masks(in[1], x)
	uniform := o.LabelSmoothing / float64(x.Dim(-1))
	target := AddScalar(MulScalar(Cast(hot, x.DType()), 1-o.LabelSmoothing), uniform)
	if len(dloss.Shape()) > 0 {
		dloss = lastOf(dloss, x)
	}
	d := Mul(Sub(Exp(Sub(x, lastOf(wide(in[2]), x))), target), dloss)
	return []*Tensor{Cast(Where(lastOf(counts, x), d, Const(d, 0)), in[0].DType())}
}

func (o crossEntropyGrad) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

func (crossEntropyGrad) Rule(in []Type) mesh.Rule {
	word, lead := lastWhole(in[0].Shape)
	dloss := factors(0, len(in[3].Shape))
	return mesh.Rule(word + "," + lead + "," + lead + "," + dloss + "->" + word)
}

func (crossEntropyGrad) Work(in, out []Type) Work {
	return Work{Flops: 4 * float64(in[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o crossEntropyGrad) Eval(env *Env, in, out []array.Array) {
	_, n := rowsOf(in[0].Shape())
	labels := labelsOf(o.Name(), in[1], o.IgnoreIndex, n)
	if out[0].DType() == array.F64 {
		evalCrossEntropyGrad[float64](env, o, in, labels, out[0])
		return
	}
	evalCrossEntropyGrad[float32](env, o, in, labels, out[0])
}

func evalCrossEntropyGrad[T floats](env *Env, o crossEntropyGrad, in []array.Array, labels []int, out array.Array) {
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
			dst := x // a buffer where logits are 16 bits
			if !half {
				dst = array.Data[T](out)[i*n : (i+1)*n]
			}
			kernel.CrossEntropyGradRow(dst, x, labels[i], lse[i], dloss[i*step], T(o.LabelSmoothing))
			if half {
				castHalf(rowView(out, n, i), array.FromSlice(dst, n), 0, n)
			}
		}
	})
}

func (o crossEntropyGrad) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return emitByParts(o, w, in)
}

func (crossEntropyGrad) Samples() []Sample {
	return []Sample{
		{Op: crossEntropyGrad{IgnoreIndex: -100}, In: []Arg{f32(5, 7, 6), i32Below(6, 5, 7), f32(5, 7), f32()}},
		{Op: crossEntropyGrad{IgnoreIndex: 1, LabelSmoothing: 0.1}, In: []Arg{f32(150, 19), i32Below(19, 150), f32(150), f32(150)}},
		{Op: crossEntropyGrad{IgnoreIndex: -100}, In: []Arg{f32(5), i32Below(5), f32(), f32()}},
	}
}
