package op

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// MaxPool2D is the largest element in each window of x [batch, channels, height, width]. The first of equal elements
// gets the gradient.
func MaxPool2D(x *Tensor, c PoolConfig) *Tensor {
	kernel, stride, pad := c.lists()
	return apply1(maxPool2D{kernel, stride, pad}, x)
}

type maxPool2D struct{ Kernel, Stride, Padding []int }

func (maxPool2D) Name() string { return "max_pool2d" }

func (o maxPool2D) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 1); err != nil {
		return nil, err
	}
	s, err := newPoolShape(in[0], o.Kernel, o.Stride, o.Padding)
	if err != nil {
		return nil, err
	}
	return []Type{{DType: in[0].DType, Shape: s.outputShape()}}, nil
}

func (o maxPool2D) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{apply1(maxPool2DGrad(o), in[0], dy[0])}
}

func (o maxPool2D) Rule(in []Type) mesh.Rule {
	return poolRule(in[0], o.Kernel, o.Stride, o.Padding, "x", "y")
}

func (o maxPool2D) Work(in, out []Type) Work { return poolWork(o.Kernel, in, out, out[0]) }

func poolWork(kernel []int, in, out []Type, y Type) Work {
	return Work{Flops: float64(y.Shape.Len() * array.Shape(kernel).Len()), Bytes: moved(in, out)}
}

func (o maxPool2D) Eval(env *Env, in, out []array.Array) {
	maxPool2DPick(o).Eval(env, []array.Array{in[0], in[0]}, out)
}

// firstMax is where the first largest element of a window is; NaN counts as the largest.
func firstMax[T floats](x []T, width, top, bottom, left, right int) int {
	best := top*width + left
	for y := top; y < bottom; y++ {
		for at := y*width + left; at < y*width+right; at++ {
			if v := x[at]; v > x[best] || v != v && x[best] == x[best] {
				best = at
			}
		}
	}
	return best
}

func (o maxPool2D) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	s, _ := newPoolShape(Type{DType: in[0].DType, Shape: in[0].Shape}, o.Kernel, o.Stride, o.Padding)
	return []hlo.Ref{emitWindow(w, "maximum", math.Inf(-1), in[0], s.window(), out[0])}
}

func (maxPool2D) Samples() []Sample {
	return []Sample{
		{Op: maxPool2D{[]int{2, 2}, []int{2, 2}, []int{0, 0}}, In: []Arg{f32(2, 3, 8, 6)}},
		{Op: maxPool2D{[]int{3, 2}, []int{2, 1}, []int{1, 1}}, In: []Arg{f32(2, 3, 7, 5)}},
	}
}

// maxPool2DGrad puts each element of y where the window's largest element of x is.
type maxPool2DGrad struct{ Kernel, Stride, Padding []int }

func (maxPool2DGrad) Name() string    { return "max_pool2d_grad" }
func (maxPool2DGrad) Linear() [][]int { return [][]int{{1}} }

func (o maxPool2DGrad) Infer(in []Type) ([]Type, error) {
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

// VJP takes x's order as given: moving it changes nothing almost everywhere.
func (o maxPool2DGrad) VJP(in, _, dx []*Tensor) []*Tensor {
	return []*Tensor{nil, apply1(maxPool2DPick(o), in[0], dx[0])}
}

func (o maxPool2DGrad) Rule(in []Type) mesh.Rule {
	return poolRule(in[0], o.Kernel, o.Stride, o.Padding, "x,y", "x")
}

func (o maxPool2DGrad) Work(in, out []Type) Work { return poolWork(o.Kernel, in, out, in[1]) }

func (o maxPool2DGrad) Eval(env *Env, in, out []array.Array) {
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
	size, places := s.in[0]*s.in[1], s.out[0]*s.out[1]
	s.planes(env, func(p int) {
		from, to, d := x[p*size:(p+1)*size], dx[p*size:(p+1)*size], dy[p*places:(p+1)*places]
		clear(to)
		s.windows(func(at, top, bottom, left, right int) {
			to[firstMax(from, s.in[1], top, bottom, left, right)] += d[at]
		})
	})
}

func (o maxPool2DGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
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

func (maxPool2DGrad) Samples() []Sample {
	return []Sample{
		{Op: maxPool2DGrad{[]int{2, 2}, []int{2, 2}, []int{0, 0}}, In: []Arg{f32(2, 3, 8, 6), f32(2, 3, 4, 3)}},
		{Op: maxPool2DGrad{[]int{3, 3}, []int{1, 2}, []int{1, 0}}, In: []Arg{f32(1, 2, 5, 7), f32(1, 2, 5, 3)}},
	}
}
