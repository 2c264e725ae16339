package op

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// maxPoolPick selects the elements of v at the positions of each window's largest element of x: max_pool for
// v = x, and the transpose of its gradient.
type maxPoolPick struct{ Kernel, Stride, Padding []int }

func (maxPoolPick) Name() string    { return "max_pool_pick" }
func (maxPoolPick) Linear() [][]int { return [][]int{{1}} }

func (o maxPoolPick) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 2); err != nil {
		return nil, err
	}
	s, err := newPoolShape(in[0], o.Kernel, o.Stride, o.Padding)
	if err != nil {
		return nil, err
	}
	if !in[0].Shape.Equal(in[1].Shape) {
		return nil, fmt.Errorf("shapes differ: got %v and %v", in[0], in[1])
	}
	return []Type{{DType: in[0].DType, Shape: s.outputShape()}}, nil
}

func (o maxPoolPick) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{nil, apply1(maxPoolGrad(o), in[0], dy[0])}
}

func (o maxPoolPick) Rule(in []Type) mesh.Rule {
	return poolRule(in[0], o.Kernel, o.Stride, o.Padding, "x,x", "y")
}

func (o maxPoolPick) Work(in, out []Type) Work { return poolWork(o.Kernel, in, out, out[0]) }

func (o maxPoolPick) Eval(env *Env, in, out []array.Array) {
	s, _ := newPoolShape(typesOf(in)[0], o.Kernel, o.Stride, o.Padding)
	float(out[0],
		func() {
			pickMax(env, s, array.Data[float32](out[0]), array.Data[float32](in[0]), array.Data[float32](in[1]))
		},
		func() {
			pickMax(env, s, array.Data[float64](out[0]), array.Data[float64](in[0]), array.Data[float64](in[1]))
		})
}

func pickMax[T floats](env *Env, s *poolShape, y, x, v []T) {
	size, places := s.size(), s.places()
	s.planes(env, func(p int) {
		from, of, to := x[p*size:(p+1)*size], v[p*size:(p+1)*size], y[p*places:(p+1)*places]
		s.windows(func(at int, cover [3]span) { to[at] = of[firstMax(s, from, cover)] })
	})
}

// Emit carries the elements of v along with the maxima of x.
func (o maxPoolPick) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	s, _ := newPoolShape(Type{DType: in[0].DType, Shape: in[0].Shape}, o.Kernel, o.Stride, o.Padding)
	win, scalar, truth := s.window(), hlo.Type{DType: in[0].DType}, hlo.Type{DType: array.Bool}
	region := w.Region([]hlo.Type{scalar, scalar, scalar, scalar}, func(in []hlo.Ref) []hlo.Ref {
		best, kept, x, v := in[0], in[1], in[2], in[3]
		better := w.Op("or", "", truth, w.Compare("GT", x, best), w.Compare("NE", x, x))
		return []hlo.Ref{w.Op("select", "", scalar, better, x, best), w.Op("select", "", scalar, better, v, kept)}
	})
	attrs := fmt.Sprintf("window_dimensions = %s, window_strides = %s, padding = %s",
		hlo.Ints(win.size), hlo.Ints(win.stride), hloPadding(win.low, win.high))
	types := []hlo.Type{hloType(out[0]), hloType(out[0])}
	return w.OpN("reduce_window", attrs, []string{region}, types, in[0], in[1], w.Constant(scalar, math.Inf(-1)),
		w.Constant(scalar, 0))[1:]
}

func (maxPoolPick) Samples() []Sample {
	return []Sample{
		{Op: maxPoolPick{[]int{2, 2}, []int{2, 2}, []int{0, 0}}, In: []Arg{f32(2, 3, 8, 6), f32(2, 3, 8, 6)}},
	}
}
