package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// tanhSeries computes the derivatives of y = tanh x along several lines from y and, line by line, the first
// Orders[i] derivatives of x. It is for dtypes whose loops are not compiled.
type tanhSeries struct {
	manySeries
	Orders []int
}

func (tanhSeries) Name() string { return "tanh_series" }

func (o tanhSeries) NumResults(int) int { return derivativesIn(o.Orders) }

func (o tanhSeries) Infer(in []Type) ([]Type, error) {
	n := derivativesIn(o.Orders)
	if err := wantSeries(in, o.Orders, 1+n); err != nil {
		return nil, err
	}
	return in[1:], nil
}

// wantSeries checks n operands of one type, for series up to the second derivative.
func wantSeries(in []Type, orders []int, n int) error {
	if err := wantOrders(orders); err != nil {
		return err
	}
	if err := wantFloats(in, n); err != nil {
		return err
	}
	return wantSameShape(in)
}

func wantOrders(orders []int) error {
	for _, k := range orders {
		if k < 1 || k > 2 {
			return fmt.Errorf("orders are %v: want 1 or 2 for each", orders)
		}
	}
	if len(orders) == 0 {
		return fmt.Errorf("want the order of at least one series")
	}
	return nil
}

// derivativesIn returns the total number of derivatives.
func derivativesIn(orders []int) int {
	n := 0
	for _, k := range orders {
		n += k
	}
	return n
}

func (o tanhSeries) Decompose(in []*Tensor) []*Tensor {
	y, xs := in[0], in[1:]
	z := Sub(Const(y, 1), Square(y))
	var out []*Tensor
	for _, k := range o.Orders {
		first := Mul(z, xs[0])
		out = append(out, first)
		if k == 2 {
			bend := Mul(Mul(MulScalar(y, 2), first), xs[0])
			out = append(out, Sub(Mul(z, xs[1]), bend))
		}
		xs = xs[k:]
	}
	return out
}

func (o tanhSeries) VJP(in, out, dout []*Tensor) []*Tensor {
	args := append([]*Tensor{}, in...)
	for i, d := range dout {
		if d == nil {
			d = ZerosLike(out[i])
		}
		args = append(args, d)
	}
	return ir.Apply(tanhSeriesGrad(o), args...)[:len(in)]
}

func (o tanhSeries) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { tanhSeriesOver[float32](env, o.Orders, in, out) },
		func() { tanhSeriesOver[float64](env, o.Orders, in, out) })
}

// seriesBlock is the number of elements for which all series are computed at once; they fit the first-level
// cache.
const seriesBlock = 512

func tanhSeriesOver[T floats](env *Env, orders []int, in, out []array.Array) {
	xs, ys := dataOf[T](in), dataOf[T](out)
	env.split(len(xs[0]), func(lo, hi int) {
		for ; lo < hi; lo += seriesBlock {
			at, to, end := 1, 0, min(hi, lo+seriesBlock)
			for _, k := range orders {
				kernel.TanhSeries(spans(ys[to:to+k], lo, end), xs[0][lo:end], spans(xs[at:at+k], lo, end))
				at, to = at+k, to+k
			}
		}
	})
}

func dataOf[T array.Elem](as []array.Array) [][]T {
	out := make([][]T, len(as))
	for i, a := range as {
		out[i] = array.Data[T](a)
	}
	return out
}

// spans returns the elements from lo to hi of each slice.
func spans[T any](xs [][]T, lo, hi int) [][]T {
	out := make([][]T, len(xs))
	for i, x := range xs {
		out[i] = x[lo:hi]
	}
	return out
}

func (o tanhSeries) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (tanhSeries) Samples() []Sample {
	y := f32In(-0.9, 0.9, 5, 7)
	return []Sample{
		{Op: tanhSeries{Orders: []int{2, 1}}, In: []Arg{y, f32(5, 7), f32(5, 7), f32(5, 7)}},
		{Op: tanhSeries{Orders: []int{1}}, In: []Arg{y, f32(5, 7)}},
	}
}

// manySeries is embedded by the derivatives of tanh and their gradient: elementwise ops with many operands.
type manySeries struct{}

func (manySeries) Work(in, out []Type) Work {
	return Work{Flops: fusedFlops * float64(len(out)*out[0].Shape.Len()), Bytes: moved(in, out)}
}

func (manySeries) rule(in []Type, out int) mesh.Rule { return sameRule(len(in[0].Shape), len(in), out) }

func (o tanhSeries) Rule(in []Type) mesh.Rule { return o.rule(in, len(in)-1) }

// tanhSeriesGrad computes the gradient of tanhSeries from its operands and its results' gradients.
type tanhSeriesGrad tanhSeries

func (tanhSeriesGrad) Name() string { return "tanh_series_grad" }

func (o tanhSeriesGrad) NumResults(int) int { return 1 + derivativesIn(o.Orders) }

// Linear declares linearity in the gradients of the results.
func (o tanhSeriesGrad) Linear() [][]int {
	n := derivativesIn(o.Orders)
	g := make([]int, n)
	for i := range g {
		g[i] = 1 + n + i
	}
	return [][]int{g}
}

func (o tanhSeriesGrad) Infer(in []Type) ([]Type, error) {
	n := derivativesIn(o.Orders)
	if err := wantSeries(in, o.Orders, 1+2*n); err != nil {
		return nil, err
	}
	return in[:1+n], nil
}

func (o tanhSeriesGrad) Rule(in []Type) mesh.Rule { return o.rule(in, 1+derivativesIn(o.Orders)) }

func (o tanhSeriesGrad) Decompose(in []*Tensor) []*Tensor {
	n := 1 + derivativesIn(o.Orders)
	return vjpByParts(tanhSeries(o), in[:n], in[n:])
}

func (o tanhSeriesGrad) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

func (o tanhSeriesGrad) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { tanhSeriesGradOver[float32](env, o.Orders, in, out) },
		func() { tanhSeriesGradOver[float64](env, o.Orders, in, out) })
}

func tanhSeriesGradOver[T floats](env *Env, orders []int, in, out []array.Array) {
	xs, ds, n := dataOf[T](in), dataOf[T](out), derivativesIn(orders)
	env.split(len(xs[0]), func(lo, hi int) {
		for ; lo < hi; lo += seriesBlock {
			at, end := 1, min(hi, lo+seriesBlock)
			dy := ds[0][lo:end]
			clear(dy)
			for _, k := range orders {
				kernel.TanhSeriesGrad(dy, spans(ds[at:at+k], lo, end), xs[0][lo:end], spans(xs[at:at+k], lo, end),
					spans(xs[at+n:at+n+k], lo, end))
				at += k
			}
		}
	})
}

func (o tanhSeriesGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (tanhSeriesGrad) Samples() []Sample {
	y, x := f32In(-0.9, 0.9, 5, 7), f32(5, 7)
	return []Sample{
		{Op: tanhSeriesGrad{Orders: []int{2, 1}}, In: []Arg{y, x, x, x, x, x, x}},
		{Op: tanhSeriesGrad{Orders: []int{1}}, In: []Arg{y, x, x}},
	}
}
