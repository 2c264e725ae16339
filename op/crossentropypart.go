package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// CooperativeRule lets devices split the classes.
func (o crossEntropy) CooperativeRule(in []Type) CooperativeRule {
	return CooperativeRule{Rule: jointRule(o.Rule(in)), Prefer: BySize}
}

// Cooperate reads the logits once. Devices exchange only numbers per row: first the largest logits, then,
// with one sum, the exponentials relative to them and the logits of the labels, each of which one device has.
func (o crossEntropy) Cooperate(at *Place, in []*Tensor) []*Tensor {
	j := at.lastJoint()
	part := ir.Apply(crossEntropyPart{IgnoreIndex: o.IgnoreIndex, Offset: j.own.Start, Total: j.total}, in...)
	if part[0].Err() != nil {
		return part[:3]
	}
	top := j.max(part[0])
	sum := Mul(part[1], Exp(belowTop(part[0], top)))
	sums := []*Tensor{sum, part[2]}
	if o.LabelSmoothing != 0 {
		sums = append(sums, part[3])
	}
	sums = j.sums(sums...)
	return o.fromSums(in[1], top, sums, j.total)
}

// belowTop returns how far a device's largest elements are below those of all devices; 0 also if both are
// infinite.
func belowTop(own, top *Tensor) *Tensor {
	return Where(Equal(own, top), Const(own, 0), Sub(own, top))
}

// fromSums returns the results from each row's largest logit and, over all classes, its sum of exponentials
// relative to that, the label's logit and, with smoothing, the sum of logits.
func (o crossEntropy) fromSums(labels, top *Tensor, sums []*Tensor, classes int) []*Tensor {
	logSum := Log(sums[0])
	counts := o.counts(labels)
	loss := Add(Sub(top, sums[1]), logSum)
	if o.LabelSmoothing != 0 {
		mean := MulScalar(sums[2], 1/float64(classes))
		loss = Add(loss, MulScalar(Sub(sums[1], mean), o.LabelSmoothing))
	}
	loss = Where(counts, loss, Const(loss, 0))
	if o.Reduction == "sum" {
		loss = Sum(loss)
	}
	return []*Tensor{loss, Add(logSum, top), Sum(Cast(counts, top.DType()))}
}

// crossEntropyPart computes per row, over a shard of the classes, the largest logit, the sum of exponentials
// relative to it, the label's logit, or 0 if that is on another shard, and the sum of logits. The shard has
// the classes from Offset on, of Total; 0 means all of them.
type crossEntropyPart struct{ IgnoreIndex, Offset, Total int }

func (o crossEntropyPart) part(classes int) rowPart { return rowPart{classes, o.Offset, o.Total} }

func (crossEntropyPart) Name() string       { return "cross_entropy_part" }
func (crossEntropyPart) NumResults(int) int { return 4 }
func (crossEntropyPart) halfNative()        {}

func (o crossEntropyPart) Infer(in []Type) ([]Type, error) {
	if err := inferLabels(in, 2); err != nil {
		return nil, err
	}
	if _, n := rowsOf(in[0].Shape); !o.part(n).fits() {
		return nil, fmt.Errorf("%v has no classes from %d on of %d", in[0], o.Offset, o.Total)
	}
	row := statOf(in[0])
	return []Type{row, row, row, row}, nil
}

func (o crossEntropyPart) Decompose(in []*Tensor) []*Tensor {
	x := wide(in[0])
	last := len(x.Shape()) - 1
	top := AMax(x, last)
	hot := Cast(apply1(oneHot{NumClasses: x.Dim(-1), Offset: o.Offset}, in[1]), array.Bool)
	hot = LogicalAnd(hot, lastOf(crossEntropy{IgnoreIndex: o.IgnoreIndex}.counts(in[1]), x))
	sum := Sum(Exp(Sub(x, lastOf(top, x))), last)
	return []*Tensor{top, sum, Sum(Where(hot, x, Const(x, 0)), last), Sum(x, last)}
}

func (o crossEntropyPart) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

func (crossEntropyPart) Rule(in []Type) mesh.Rule {
	word, lead := lastWhole(in[0].Shape)
	return mesh.Rule(word + "," + lead + "->" + lead + "," + lead + "," + lead + "," + lead)
}

func (crossEntropyPart) Work(in, out []Type) Work {
	return Work{Flops: 4 * float64(in[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o crossEntropyPart) Eval(env *Env, in, out []array.Array) {
	_, n := rowsOf(in[0].Shape())
	limit := n
	if o.Total != 0 {
		limit = o.Total
	}
	labels := labelsOf(o.Name(), in[1], o.IgnoreIndex, limit)
	float(out[0], func() { evalCrossEntropyPart[float32](env, o, in[0], labels, out) },
		func() { evalCrossEntropyPart[float64](env, o, in[0], labels, out) })
}

func evalCrossEntropyPart[T floats](env *Env, o crossEntropyPart, logits array.Array, labels []int,
	out []array.Array) {
	rows, n := rowsOf(logits.Shape())
	top, sum := array.Data[T](out[0]), array.Data[T](out[1])
	picked, total := array.Data[T](out[2]), array.Data[T](out[3])
	env.Pool.For(rows, max(labelRows, grain/max(n, 1)), func(lo, hi int) {
		row := rowReader[T](logits, n)
		for i := lo; i < hi; i++ {
			x := row(i)
			top[i], sum[i] = kernel.MaxExpSum(x)
			picked[i], total[i] = 0, kernel.Sum(x)
			if l := labels[i] - o.Offset; labels[i] >= 0 && l >= 0 && l < n {
				picked[i] = x[l]
			}
		}
	})
}

func (o crossEntropyPart) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (crossEntropyPart) Samples() []Sample {
	return []Sample{
		{Op: crossEntropyPart{IgnoreIndex: -100}, In: []Arg{f32(5, 7, 6), i32Below(6, 5, 7)}},
		{Op: crossEntropyPart{IgnoreIndex: 2, Offset: 4, Total: 15}, In: []Arg{f32(9, 7), i32Below(15, 9)}},
		{Op: crossEntropyPart{IgnoreIndex: -100}, In: []Arg{f32(5), i32Below(5)}},
	}
}
