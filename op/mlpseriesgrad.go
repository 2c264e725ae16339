package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// mlpSeriesGrad computes the gradients of mlpSeries' operands from the operands, the saved values, and the
// gradients of value and derivatives.
type mlpSeriesGrad mlpSeries

func (mlpSeriesGrad) Name() string { return "mlp_series_grad" }

func (o mlpSeriesGrad) NumResults(operands int) int { return o.operands(operands) }

// operands returns the number of operands that are those of mlpSeries.
func (o mlpSeriesGrad) operands(all int) int { return max(0, all-1-mlpSeries(o).series()) }

func (o mlpSeriesGrad) Infer(in []Type) ([]Type, error) {
	if err := wantOrders(o.Orders); err != nil {
		return nil, err
	}
	n := o.operands(len(in))
	if err := wantSame(in, len(in)); err != nil {
		return nil, err
	}
	a, err := mlpSeries(o).check(in[:n])
	if err != nil {
		return nil, err
	}
	if want := mlpSeries(o).kept(a); !in[n].Equal(want) {
		return nil, fmt.Errorf("kept is %v: want %v", in[n], want)
	}
	want := array.Shape{a.x.Shape[0], a.b[len(a.b)-1].Shape[0]}
	for _, d := range in[n+1:] {
		if !d.Shape.Equal(want) {
			return nil, fmt.Errorf("a result's gradient is %v: want %v", d, want)
		}
	}
	return in[:n], nil
}

func (o mlpSeriesGrad) Decompose(in []*Tensor) []*Tensor {
	n, forward := o.operands(len(in)), mlpSeries(o)
	a, kept, dz := mlpArgsOf(in[:n], len(o.Orders)), pointsOf(in[n], in[0].Dim(0)), in[n+1:]
	layers := len(a.w)
	dw, db := make([]*Tensor, layers), make([]*Tensor, layers)
	var dy []*Tensor
	for l, row := layers-1, kept.Dim(1); l >= 0; l-- {
		xs, z := forward.start(a.x, a.along), []*Tensor(nil)
		if l > 0 {
			width := a.w[l].Dim(0)
			row -= forward.series() * width
			for s := range forward.series() {
				z = append(z, Narrow(kept, 1, row+s*width, row+(s+1)*width))
			}
			xs = forward.activated(z)
		}
		dy = make([]*Tensor, len(xs))
		for s, x := range xs {
			dw[l] = sumOf(dw[l], MatMulT(x, dz[s], true, false))
			dy[s] = MatMulT(dz[s], a.w[l], false, true)
		}
		if db[l] = Sum(dz[0], 0); l > 0 {
			dz = o.deactivated(z, dy)
		}
	}
	out := dy[:1:1]
	for s, i := 1, 0; i < len(o.Orders); i++ {
		out, s = append(out, dy[s]), s+o.Orders[i]
	}
	for l := range dw {
		out = append(out, dw[l], db[l])
	}
	return out
}

// deactivated returns the gradients of the arguments of tanh, from those of its value and derivatives.
func (o mlpSeriesGrad) deactivated(z, dy []*Tensor) []*Tensor {
	d := ir.Apply(tanhSeriesGrad{Orders: o.Orders}, append(slices.Clone(z), dy[1:]...)...)
	value := Mul(Add(d[0], dy[0]), Sub(Const(z[0], 1), Square(z[0])))
	return append([]*Tensor{value}, d[1:]...)
}

// pointsOf returns tiles as rows of n points.
func pointsOf(tiles *Tensor, n int) *Tensor {
	x := Reshape(Transpose(tiles, 0, 2, 1), tiles.Dim(0)*tiles.Dim(2), tiles.Dim(1))
	return Narrow(x, 0, 0, n)
}

func (o mlpSeriesGrad) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

func (o mlpSeriesGrad) Rule(in []Type) mesh.Rule {
	r, n := newMLPRule(in[0]), o.operands(len(in))
	words := r.operands(len(o.Orders), (n-1-len(o.Orders))/2)
	if words == nil {
		return mesh.Unknown
	}
	all := append(slices.Clone(words), r.kept)
	for range in[n+1:] {
		all = append(all, r.points+r.columns())
	}
	return r.rule(all, words)
}

func (o mlpSeriesGrad) Work(in, out []Type) Work {
	return Work{Flops: 2 * mlpSeries(o).flops(in[:o.operands(len(in))]), Bytes: moved(in, out)}
}

func (o mlpSeriesGrad) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { mlpBackward[float32](env, o, in, out) },
		func() { mlpBackward[float64](env, o, in, out) })
}

func mlpBackward[T floats](env *Env, o mlpSeriesGrad, in, out []array.Array) {
	n := o.operands(len(in))
	m, a := mlpNetwork[T](mlpSeries(o), in[:n])
	g := mlpArgsOf(dataOf[T](out), len(o.Orders))
	more := dataOf[T](in[n:])
	m.Backward(env.Pool, in[0].Shape()[0], a.x, a.along, more[0], more[1:],
		kernel.MLPGrads[T]{X: g.x, Along: g.along, W: g.w, B: g.b})
}

func (o mlpSeriesGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (mlpSeriesGrad) Samples() []Sample {
	w := func(in, out int) Arg { return f32In(-1, 1, in, out) }
	return []Sample{
		{
			Op: mlpSeriesGrad{Orders: []int{2, 1}},
			In: []Arg{f32(5, 2), f32(5, 2), f32(5, 2), w(2, 3), f32(3), w(3, 2),
				f32(2), f32In(-0.9, 0.9, 1, 12, kernel.TilePoints), f32(5, 2), f32(5, 2), f32(5, 2), f32(5, 2)},
		},
		{Op: mlpSeriesGrad{Orders: []int{1}}, In: []Arg{f32(128, 1), f32(128, 1), w(1, 3), f32(3), w(3, 2), f32(2),
			w(2, 1), f32(1), f32In(-0.9, 0.9, 2, 10, kernel.TilePoints), f32(128, 1), f32(128, 1)}},
	}
}
