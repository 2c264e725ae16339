package op

import (
	"fmt"
	"math"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cuda"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/triton"
	"github.com/galley-ml/galley/mesh"
)

// CrossEntropyConfig describes how the losses of rows are computed and reduced; the zero value is the usual
// training loss.
type CrossEntropyConfig struct {
	// Reduction is "mean" over the rows that are not ignored, "sum" or "none"; empty means mean.
	Reduction string
	// IgnoreIndex is the label of ignored rows; nil means -100.
	IgnoreIndex *int
	// LabelSmoothing is the fraction of a label's weight that is spread evenly over all classes.
	LabelSmoothing float64
}

// CrossEntropy returns the negative log-likelihood of the labels under the softmax over the last dim of
// logits. Labels have the dims of logits except the last. If all rows are ignored, the mean is NaN. The loss
// of 16-bit logits is float32.
func CrossEntropy(logits, labels *Tensor, c CrossEntropyConfig) *Tensor {
	loss, _ := CrossEntropyLSE(logits, labels, c)
	return loss
}

// CrossEntropyLSE returns CrossEntropy and, at no extra cost, the log-sum-exp of each row of logits, as used
// by a z-loss.
func CrossEntropyLSE(logits, labels *Tensor, c CrossEntropyConfig) (loss, lse *Tensor) {
	o := crossEntropy{Reduction: c.Reduction, IgnoreIndex: -100, LabelSmoothing: c.LabelSmoothing}
	if c.IgnoreIndex != nil {
		o.IgnoreIndex = *c.IgnoreIndex
	}
	mean := c.Reduction == "" || c.Reduction == "mean"
	if mean {
		o.Reduction = "sum"
	}
	r := ir.Apply(o, logits, labels)
	if mean {
		return Div(r[0], r[2]), r[1]
	}
	return r[0], r[1]
}

// crossEntropy returns the loss, the log-sum-exp of each row, which its gradient needs, and the number of
// rows that are not ignored. The mean is computed as a quotient outside, not by an attribute, so that sums
// over parts of the rows can be added.
type crossEntropy struct {
	Reduction      string
	IgnoreIndex    int
	LabelSmoothing float64
}

func (crossEntropy) Name() string { return "cross_entropy" }
func (o crossEntropy) Role() any  { return CrossEntropyRole{o} }
func (crossEntropy) halfNative()  {}

// Sources declares that the number of counted rows depends on labels alone, so that it can be the divisor of
// a sum over several micro-batches.
func (crossEntropy) Sources(result int) []int {
	if result == 2 {
		return []int{1}
	}
	return []int{0, 1}
}

func (o crossEntropy) Infer(in []Type) ([]Type, error) {
	if err := inferLabels(in, 2); err != nil {
		return nil, err
	}
	lse := statOf(in[0])
	total := Type{DType: lse.DType}
	switch {
	case o.LabelSmoothing < 0 || o.LabelSmoothing > 1:
		return nil, fmt.Errorf("label smoothing is %v: want 0 to 1", o.LabelSmoothing)
	case o.Reduction == "sum":
		return []Type{total, lse, total}, nil
	case o.Reduction == "none":
		return []Type{lse, lse, total}, nil
	}
	return nil, fmt.Errorf("reduction is %q: want mean, sum or none", o.Reduction)
}

// inferLabels checks the first two of n operands: logits, and one label for each row of them.
func inferLabels(in []Type, n int) error {
	switch {
	case len(in) != n:
		return fmt.Errorf("want %d operands: got %d", n, len(in))
	case !in[0].DType.IsFloat() || len(in[0].Shape) == 0:
		return fmt.Errorf("want float logits with a dim of classes: got %v", in[0])
	case in[1].DType != array.I32 && in[1].DType != array.I64:
		return fmt.Errorf("want labels of i32 or i64: got %v", in[1])
	case !in[1].Shape.Equal(in[0].Shape[:len(in[0].Shape)-1]):
		return fmt.Errorf("labels %v do not fit the rows of logits %v", in[1], in[0])
	}
	return nil
}

func (o crossEntropy) Decompose(in []*Tensor) []*Tensor {
	x, labels := wide(in[0]), in[1]
	last := len(x.Shape()) - 1
	shift := alone(x, last).shift(x, last)
	z := Sub(x, shift)
	logSum := Log(Sum(Exp(z), last))
	lse := Add(logSum, Reshape(shift, labels.Shape()...))
	hot, counts := Cast(OneHot(labels, x.Dim(-1)), array.Bool), o.counts(labels)
	picked := Sum(Where(hot, z, Const(z, 0)), last)
	loss := Sub(logSum, MulScalar(picked, 1-o.LabelSmoothing))
	if o.LabelSmoothing != 0 {
		loss = Sub(loss, MulScalar(meanLast(z), o.LabelSmoothing))
	}
	loss = Where(counts, loss, Const(loss, 0))
	if o.Reduction == "sum" {
		loss = Sum(loss)
	}
	return []*Tensor{loss, lse, Sum(Cast(counts, x.DType()))}
}

// counts returns which rows are not ignored.
func (o crossEntropy) counts(labels *Tensor) *Tensor {
	return NotEqual(labels, Const(labels, float64(o.IgnoreIndex)))
}

func (o crossEntropy) VJP(in, out, dout []*Tensor) []*Tensor {
	var dx *Tensor
	if dout[0] != nil {
		g := crossEntropyGrad{IgnoreIndex: o.IgnoreIndex, LabelSmoothing: o.LabelSmoothing}
		dx = apply1(g, in[0], in[1], out[1], dout[0])
	}
	if dout[1] != nil {
		x := wide(in[0])
		p := Exp(Sub(x, lastOf(out[1], x)))
		dx = plus(dx, Cast(Mul(p, lastOf(dout[1], x)), in[0].DType()))
	}
	return []*Tensor{dx, nil}
}

func (o crossEntropy) Rule(in []Type) mesh.Rule {
	word, lead := lastWhole(in[0].Shape)
	loss := ""
	if o.Reduction == "none" {
		loss = lead
	}
	return mesh.Rule(word + "," + lead + "->" + loss + "," + lead + ",")
}

func (crossEntropy) Work(in, out []Type) Work {
	return Work{Flops: 4 * float64(in[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o crossEntropy) Eval(env *Env, in, out []array.Array) {
	_, n := rowsOf(in[0].Shape())
	labels := labelsOf(o.Name(), in[1], o.IgnoreIndex, n)
	float(out[1], func() { evalCrossEntropy[float32](env, o, in[0], labels, out) },
		func() { evalCrossEntropy[float64](env, o, in[0], labels, out) })
}

// labelRows is the smallest number of rows per task; the rows of a task share one buffer.
const labelRows = 16

func evalCrossEntropy[T floats](env *Env, o crossEntropy, logits array.Array, labels []int,
	out []array.Array) {
	rows, n := rowsOf(logits.Shape())
	losses, lse := array.Data[T](out[0]), array.Data[T](out[1])
	if o.Reduction == "sum" {
		losses = make([]T, rows)
	}
	env.Pool.For(rows, max(labelRows, grain/max(n, 1)), func(lo, hi int) {
		row := rowReader[T](logits, n)
		for i := lo; i < hi; i++ {
			losses[i], lse[i] = kernel.CrossEntropyRow(row(i), labels[i], T(o.LabelSmoothing))
		}
	})
	if o.Reduction == "sum" {
		array.Data[T](out[0])[0] = kernel.Sum(losses)
	}
	count := 0
	for _, l := range labels {
		if l >= 0 {
			count++
		}
	}
	array.Data[T](out[2])[0] = T(count)
}

// labelsOf reads labels below limit; ignored ones become -1.
func labelsOf(op string, a array.Array, ignore, limit int) []int {
	labels := make([]int, a.Len())
	switch a.DType() {
	case array.I64:
		convertLabels(labels, array.Data[int64](a))
	case array.I32:
		convertLabels(labels, array.Data[int32](a))
	}
	for i, l := range labels {
		switch {
		case l == ignore:
			labels[i] = -1
		case l < 0 || l >= limit:
			panic(&IndexError{Op: op, Index: l, Limit: limit})
		}
	}
	return labels
}

func convertLabels[T integer](dst []int, xs []T) {
	for i, x := range xs {
		dst[i] = int(x)
	}
}

// rowReader returns a function that reads rows of n elements of a as T. 16-bit floats are widened row by row
// into one buffer, which avoids a wide copy of the whole array.
func rowReader[T floats](a array.Array, n int) func(i int) []T {
	if !a.DType().IsHalf() {
		data := array.Data[T](a)
		return func(i int) []T { return data[i*n : (i+1)*n] }
	}
	buf := array.New(array.F32, n)
	row := array.Data[T](buf)
	return func(i int) []T {
		castHalf(buf, rowView(a, n, i), 0, n)
		return row
	}
}

// rowView returns row i of n elements without copying.
func rowView(a array.Array, n, i int) array.Array {
	size := n * a.DType().Size()
	return array.View(a.DType(), array.Shape{n}, a.Bytes()[i*size:(i+1)*size])
}

// Emit reads the logits once in their own dtype, and once more for the mean that label smoothing needs. It
// keeps nothing of their size.
func (o crossEntropy) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	x := w.Convert(in[0], in[0].DType.Compute())
	row := hlo.Type{DType: x.DType, Shape: x.Shape[:len(x.Shape)-1]}
	top, logSum := emitLogSum(w, in[0], x, row)
	loss := o.emitLoss(w, in[0], in[1], top, logSum)
	return []hlo.Ref{loss, w.Op("add", "", row, logSum, top), o.emitCount(w, in[1], x.DType)}
}

// emitLoss returns the loss from a shift of each row of logits (top) and the logarithm of the sum of
// exponentials relative to it (logSum).
func (o crossEntropy) emitLoss(w *hlo.Writer, logits, labels, top, logSum hlo.Ref) hlo.Ref {
	row, last := top.Type, len(logits.Shape)-1
	picked := w.Op("subtract", "", row, emitPicked(w, logits, labels, row), top)
	part := func(y hlo.Ref, by float64) hlo.Ref { return w.Op("multiply", "", row, y, w.Constant(row, by)) }
	loss := w.Op("subtract", "", row, logSum, part(picked, 1-o.LabelSmoothing))
	if o.LabelSmoothing != 0 {
		x := w.Convert(logits, row.DType)
		z := w.Op("subtract", "", x.Type, x, w.Broadcast(top, x.Shape, upTo(last)))
		sum := w.Reduce("add", z, 0, []int{last}, row)
		loss = w.Op("subtract", "", row, loss, part(sum, o.LabelSmoothing/float64(x.Shape[last])))
	}
	loss = w.Op("select", "", row, o.emitCounts(w, labels), loss, w.Constant(row, 0))
	if o.Reduction == "sum" {
		loss = w.Reduce("add", loss, 0, upTo(last), hlo.Type{DType: row.DType})
	}
	return loss
}

// emitCounts returns which labels are not ignored, emitCount their number.
func (o crossEntropy) emitCounts(w *hlo.Writer, labels hlo.Ref) hlo.Ref {
	return w.Compare("NE", labels, w.Constant(labels.Type, float64(o.IgnoreIndex)))
}

func (o crossEntropy) emitCount(w *hlo.Writer, labels hlo.Ref, d array.DType) hlo.Ref {
	return w.Reduce("add", w.Convert(o.emitCounts(w, labels), d), 0, upTo(len(labels.Shape)), hlo.Type{DType: d})
}

// emitLogSum returns a shift of each row of logits and the logarithm of the sum of exponentials relative to
// it. x holds the logits in the wide dtype.
func emitLogSum(w *hlo.Writer, logits, x hlo.Ref, row hlo.Type) (top, logSum hlo.Ref) {
	last := len(x.Shape) - 1
	if n := row.Shape.Len(); w.Kernels() && logits.DType.IsHalf() && n > 0 && x.Shape[last] > 0 {
		k := triton.LogSumExp(logits.DType, n, x.Shape[last])
		return cuda.CallTriton(w, k, []hlo.Ref{logits}, row)[0], w.Constant(row, 0)
	}
	top, sum := emitSoftmaxSums(w, x, last)
	return top, w.Op("log", "", row, sum)
}

// emitSoftmaxSums returns the largest element along a dim and the sum of exponentials relative to it, in one
// pass: when partial sums are merged, they are rescaled to the larger maximum.
func emitSoftmaxSums(w *hlo.Writer, x hlo.Ref, dim int) (top, sum hlo.Ref) {
	one := hlo.Type{DType: x.DType}
	row := hlo.Type{DType: x.DType, Shape: slices.Delete(x.Shape.Clone(), dim, dim+1)}
	region := w.Region([]hlo.Type{one, one, one, one}, func(in []hlo.Ref) []hlo.Ref {
		top := w.Op("maximum", "", one, in[0], in[2])
		at := func(i int) hlo.Ref {
			return w.Op("multiply", "", one, in[i+1], w.Op("exponential", "", one, w.Op("subtract", "", one, in[i],
				top)))
		}
		return []hlo.Ref{top, w.Op("add", "", one, at(0), at(2))}
	})
	// Below any logit but finite, because the difference of two infinities is NaN.
	least := w.Constant(one, -math.MaxFloat32)
	if x.DType == array.F64 {
		least = w.Constant(one, -math.MaxFloat64)
	}
	r := w.OpN("reduce", "dimensions = "+hlo.Ints([]int{dim}), []string{region}, []hlo.Type{row, row},
		x, w.Constant(x.Type, 1), least, w.Constant(one, 0))
	return r[0], r[1]
}

// emitPicked returns each row's logit of its label. An ignored label picks some other logit, which is not
// counted.
func emitPicked(w *hlo.Writer, x, labels hlo.Ref, row hlo.Type) hlo.Ref {
	last := len(x.Shape) - 1
	shape := append(x.Shape[:last].Clone(), 1)
	index := w.Op("reshape", "", hlo.Type{DType: labels.DType, Shape: shape}, labels)
	y := emitTakeAlong(w, x, index, last, Type{DType: x.DType, Shape: shape})
	return w.Convert(w.Op("reshape", "", hlo.Type{DType: x.DType, Shape: row.Shape}, y), row.DType)
}

// emitHot returns true where the class, counted from offset, is the row's label.
func emitHot(w *hlo.Writer, labels hlo.Ref, shape array.Shape, offset int) hlo.Ref {
	t := hlo.Type{DType: array.I32, Shape: shape}
	labels = rowPart{offset: offset}.emitLocal(w, w.Convert(labels, array.I32))
	return w.Compare("EQ", w.Broadcast(labels, shape, upTo(len(shape)-1)), emitIota(w, t, len(shape)-1))
}

func (crossEntropy) Samples() []Sample {
	return []Sample{
		{Op: crossEntropy{Reduction: "sum", IgnoreIndex: -100}, In: []Arg{f32(5, 7, 6), i32Below(6, 5, 7)}},
		{Op: crossEntropy{Reduction: "none", IgnoreIndex: 2}, In: []Arg{f32(5, 6), i32Below(6, 5)}},
		{Op: crossEntropy{Reduction: "sum", IgnoreIndex: 1, LabelSmoothing: 0.1},
			In: []Arg{f32(150, 19), i32Below(19, 150)}},
		{Op: crossEntropy{Reduction: "none", IgnoreIndex: -100, LabelSmoothing: 0.25},
			In: []Arg{f32(5), i32Below(5)}},
	}
}
