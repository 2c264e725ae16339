package op

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// MaxPool1D returns the largest element in each window of x [batch, channels, length], or NaN if it contains
// one. The first of equal elements gets the gradient.
func MaxPool1D(x *Tensor, c PoolConfig) *Tensor { return maximumPool(x, c, 1) }

// MaxPool2D is like MaxPool1D for x [batch, channels, height, width].
func MaxPool2D(x *Tensor, c PoolConfig) *Tensor { return maximumPool(x, c, 2) }

// MaxPool3D is like MaxPool1D for x [batch, channels, depth, height, width].
func MaxPool3D(x *Tensor, c PoolConfig) *Tensor { return maximumPool(x, c, 3) }

func maximumPool(x *Tensor, c PoolConfig, spatial int) *Tensor {
	if c.reaches() {
		return reachingMax(x, c, spatial)
	}
	kernel, stride, pad := c.lists(spatial)
	return apply1(maxPool{kernel, stride, pad}, x)
}

type maxPool struct{ Kernel, Stride, Padding []int }

func (maxPool) Name() string { return "max_pool" }

func (o maxPool) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 1); err != nil {
		return nil, err
	}
	s, err := newPoolShape(in[0], o.Kernel, o.Stride, o.Padding)
	if err != nil {
		return nil, err
	}
	return []Type{{DType: in[0].DType, Shape: s.outputShape()}}, nil
}

func (o maxPool) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{apply1(maxPoolGrad(o), in[0], dy[0])}
}

func (o maxPool) Rule(in []Type) mesh.Rule {
	return poolRule(in[0], o.Kernel, o.Stride, o.Padding, "x", "y")
}

func (o maxPool) Work(in, out []Type) Work { return poolWork(o.Kernel, in, out, out[0]) }

func (o maxPool) Eval(env *Env, in, out []array.Array) {
	maxPoolPick(o).Eval(env, []array.Array{in[0], in[0]}, out)
}

// firstMax returns the index of the first largest element of a window; NaN counts as largest, and the last
// NaN wins.
func firstMax[T floats](s *poolShape, x []T, cover [3]span) int {
	best := -1
	s.lines(cover, func(lo, hi int) {
		for at := lo; at < hi; at++ {
			if v := x[at]; best < 0 || v > x[best] || v != v {
				best = at
			}
		}
	})
	return best
}

func (o maxPool) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	s, _ := newPoolShape(Type{DType: in[0].DType, Shape: in[0].Shape}, o.Kernel, o.Stride, o.Padding)
	return []hlo.Ref{emitWindow(w, "maximum", math.Inf(-1), in[0], s.window(), out[0])}
}

func (maxPool) Samples() []Sample {
	return []Sample{
		{Op: maxPool{[]int{2, 2}, []int{2, 2}, []int{0, 0}}, In: []Arg{f32(2, 3, 8, 6)}},
		{Op: maxPool{[]int{3, 2}, []int{2, 1}, []int{1, 1}}, In: []Arg{f32(2, 3, 7, 5)}},
		{Op: maxPool{[]int{3}, []int{2}, []int{1}}, In: []Arg{f32(2, 3, 7)}},
		{Op: maxPool{[]int{2, 3, 2}, []int{2, 1, 2}, []int{0, 1, 1}}, In: []Arg{f32(2, 2, 4, 5, 3)}},
	}
}

// maxPoolGrad adds each element of y at the position of the window's largest element of x.
type maxPoolGrad struct{ Kernel, Stride, Padding []int }

func (maxPoolGrad) Name() string    { return "max_pool_grad" }
func (maxPoolGrad) Linear() [][]int { return [][]int{{1}} }

func (o maxPoolGrad) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 2); err != nil {
		return nil, err
	}
	s, err := newPoolShape(in[0], o.Kernel, o.Stride, o.Padding)
	if err != nil {
		return nil, err
	}
	if !s.outputShape().Equal(in[1].Shape) {
		return nil, fmt.Errorf("%v is not pooled to %v", in[0], in[1])
	}
	return in[:1], nil
}

// VJP treats the positions of the maxima as constant, which they are almost everywhere.
func (o maxPoolGrad) VJP(in, _, dx []*Tensor) []*Tensor {
	return []*Tensor{nil, apply1(maxPoolPick(o), in[0], dx[0])}
}

func (o maxPoolGrad) Rule(in []Type) mesh.Rule {
	return poolRule(in[0], o.Kernel, o.Stride, o.Padding, "x,y", "x")
}

func (o maxPoolGrad) Work(in, out []Type) Work { return poolWork(o.Kernel, in, out, in[1]) }

func (o maxPoolGrad) Eval(env *Env, in, out []array.Array) {
	s, _ := newPoolShape(typesOf(in)[0], o.Kernel, o.Stride, o.Padding)
	float(out[0],
		func() {
			placeMax(env, s, array.Data[float32](out[0]), array.Data[float32](in[0]), array.Data[float32](in[1]))
		},
		func() {
			placeMax(env, s, array.Data[float64](out[0]), array.Data[float64](in[0]), array.Data[float64](in[1]))
		})
}

func placeMax[T floats](env *Env, s *poolShape, dx, x, dy []T) {
	size, places := s.size(), s.places()
	s.planes(env, func(p int) {
		from, to, d := x[p*size:(p+1)*size], dx[p*size:(p+1)*size], dy[p*places:(p+1)*places]
		clear(to)
		s.windows(func(at int, cover [3]span) { to[firstMax(s, from, cover)] += d[at] })
	})
}

func (o maxPoolGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	s, _ := newPoolShape(Type{DType: in[0].DType, Shape: in[0].Shape}, o.Kernel, o.Stride, o.Padding)
	win, scalar := s.window(), hlo.Type{DType: in[0].DType}
	first := w.Region([]hlo.Type{scalar, scalar}, func(in []hlo.Ref) []hlo.Ref {
		return []hlo.Ref{w.Compare("GE", in[0], in[1])}
	})
	regions := []string{first, w.Binary("add", scalar.DType)}
	attrs := fmt.Sprintf("window_dimensions = %s, window_strides = %s, padding = %s",
		hlo.Ints(win.size), hlo.Ints(win.stride), hloPadding(win.low, win.high))
	return w.OpN("select_and_scatter", attrs, regions, hloTypes(out), in[0], in[1], w.Constant(scalar, 0))
}

func (maxPoolGrad) Samples() []Sample {
	return []Sample{
		{Op: maxPoolGrad{[]int{2, 2}, []int{2, 2}, []int{0, 0}}, In: []Arg{f32(2, 3, 8, 6), f32(2, 3, 4, 3)}},
		{Op: maxPoolGrad{[]int{3, 3}, []int{1, 2}, []int{1, 0}}, In: []Arg{f32(1, 2, 5, 7), f32(1, 2, 5, 3)}},
		{Op: maxPoolGrad{[]int{3}, []int{2}, []int{1}}, In: []Arg{f32(2, 3, 7), f32(2, 3, 4)}},
	}
}
