package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// AvgPool2D is the mean of each window of x [batch, channels, height, width]; padding counts as zeros.
func AvgPool2D(x *Tensor, c PoolConfig) *Tensor {
	kernel, stride, pad := c.lists()
	return apply1(avgPool2D{kernel, stride, pad}, x)
}

type avgPool2D struct{ Kernel, Stride, Padding []int }

func (avgPool2D) Name() string    { return "avg_pool2d" }
func (avgPool2D) Linear() [][]int { return [][]int{{0}} }

func (o avgPool2D) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 1); err != nil {
		return nil, err
	}
	s, err := newPoolShape(in[0], o.Kernel, o.Stride, o.Padding)
	if err != nil {
		return nil, err
	}
	return []Type{{DType: in[0].DType, Shape: s.outputShape()}}, nil
}

func (o avgPool2D) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{apply1(avgPool2DGrad{o.Kernel, o.Stride, o.Padding, in[0].Shape()[2:]}, dy[0])}
}

func (o avgPool2D) Rule(in []Type) mesh.Rule {
	return poolRule(in[0], o.Kernel, o.Stride, o.Padding, "x", "y")
}

func (o avgPool2D) Work(in, out []Type) Work { return poolWork(o.Kernel, in, out, out[0]) }

func (o avgPool2D) Eval(env *Env, in, out []array.Array) {
	s, _ := newPoolShape(typesOf(in)[0], o.Kernel, o.Stride, o.Padding)
	float(out[0],
		func() { averageWindows(env, s, array.Data[float32](out[0]), array.Data[float32](in[0])) },
		func() { averageWindows(env, s, array.Data[float64](out[0]), array.Data[float64](in[0])) })
}

func averageWindows[T floats](env *Env, s *poolShape, y, x []T) {
	size, places, count := s.in[0]*s.in[1], s.out[0]*s.out[1], float64(s.kernel[0]*s.kernel[1])
	s.planes(env, func(p int) {
		from, to := x[p*size:(p+1)*size], y[p*places:(p+1)*places]
		s.windows(func(at, top, bottom, left, right int) {
			sum := 0.0
			for r := top; r < bottom; r++ {
				for _, v := range from[r*s.in[1]+left : r*s.in[1]+right] {
					sum += float64(v)
				}
			}
			to[at] = T(sum / count)
		})
	})
}

func (o avgPool2D) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	s, _ := newPoolShape(Type{DType: in[0].DType, Shape: in[0].Shape}, o.Kernel, o.Stride, o.Padding)
	total := emitWindow(w, "add", 0, in[0], s.window(), out[0])
	return []hlo.Ref{emitDivide(w, total, float64(s.kernel[0]*s.kernel[1]))}
}

func emitDivide(w *hlo.Writer, x hlo.Ref, by float64) hlo.Ref {
	return w.Op("divide", "", x.Type, x, w.Constant(x.Type, by))
}

func (avgPool2D) Samples() []Sample {
	return []Sample{
		{Op: avgPool2D{[]int{2, 2}, []int{2, 2}, []int{0, 0}}, In: []Arg{f32(2, 3, 8, 6)}},
		{Op: avgPool2D{[]int{3, 2}, []int{2, 1}, []int{1, 1}}, In: []Arg{f32(2, 3, 7, 5)}},
	}
}

// avgPool2DGrad spreads each element evenly over its window in an image of the given size.
type avgPool2DGrad struct{ Kernel, Stride, Padding, Size []int }

func (avgPool2DGrad) Name() string    { return "avg_pool2d_grad" }
func (avgPool2DGrad) Linear() [][]int { return [][]int{{0}} }

// shape is that of the pooling whose gradient it is.
func (o avgPool2DGrad) shape(y Type) (*poolShape, error) {
	if len(y.Shape) != 4 || len(o.Size) != 2 {
		return nil, fmt.Errorf("want batch, channels, height and width: got %v and %v", y, o.Size)
	}
	x := Type{DType: y.DType, Shape: append(y.Shape[:2].Clone(), o.Size...)}
	return newPoolShape(x, o.Kernel, o.Stride, o.Padding)
}

func (o avgPool2DGrad) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 1); err != nil {
		return nil, err
	}
	s, err := o.shape(in[0])
	if err != nil {
		return nil, err
	}
	if !s.outputShape().Equal(in[0].Shape) {
		return nil, fmt.Errorf("size %v is not pooled to %v", o.Size, in[0])
	}
	return []Type{{DType: in[0].DType, Shape: s.inputShape()}}, nil
}

func (o avgPool2DGrad) VJP(_, _, dx []*Tensor) []*Tensor {
	return []*Tensor{apply1(avgPool2D{o.Kernel, o.Stride, o.Padding}, dx[0])}
}

func (o avgPool2DGrad) Rule(in []Type) mesh.Rule {
	s, err := o.shape(in[0])
	if err != nil {
		return mesh.Unknown
	}
	return s.rule("y", "x")
}

func (o avgPool2DGrad) Localize(at *Place) (Op, error) {
	o.Size = at.OutShape(0)[2:]
	return o, nil
}

func (o avgPool2DGrad) Work(in, out []Type) Work { return poolWork(o.Kernel, in, out, in[0]) }

func (o avgPool2DGrad) Eval(env *Env, in, out []array.Array) {
	s, _ := o.shape(typesOf(in)[0])
	float(out[0],
		func() { spreadWindows(env, s, array.Data[float32](out[0]), array.Data[float32](in[0])) },
		func() { spreadWindows(env, s, array.Data[float64](out[0]), array.Data[float64](in[0])) })
}

func spreadWindows[T floats](env *Env, s *poolShape, dx, dy []T) {
	size, places, count := s.in[0]*s.in[1], s.out[0]*s.out[1], T(s.kernel[0]*s.kernel[1])
	s.planes(env, func(p int) {
		to, from := dx[p*size:(p+1)*size], dy[p*places:(p+1)*places]
		clear(to)
		s.windows(func(at, top, bottom, left, right int) {
			each := from[at] / count
			for r := top; r < bottom; r++ {
				line := to[r*s.in[1]+left : r*s.in[1]+right]
				for i := range line {
					line[i] += each
				}
			}
		})
	})
}

// Emit spreads the elements out by the stride and sums windows of them, one for each input element.
func (o avgPool2DGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	s, _ := o.shape(Type{DType: in[0].DType, Shape: in[0].Shape})
	p, shape := newPad(4), in[0].Shape.Clone()
	for d := range 2 {
		spread := (s.out[d]-1)*s.stride[d] + 1
		p.Interior[2+d], p.Low[2+d] = s.stride[d]-1, s.kernel[d]-1-s.pad[d]
		p.High[2+d] = s.in[d] + s.kernel[d] - 1 - spread - p.Low[2+d]
		shape[2+d] = s.in[d] + s.kernel[d] - 1
	}
	padded := p.Emit(w, in, []Type{{DType: in[0].DType, Shape: shape}})[0]
	win := window{size: []int{1, 1, s.kernel[0], s.kernel[1]}, stride: ones(4), low: make([]int, 4), high: make([]int, 4)}
	return []hlo.Ref{emitDivide(w, emitWindow(w, "add", 0, padded, win, out[0]), float64(s.kernel[0]*s.kernel[1]))}
}

func (avgPool2DGrad) Samples() []Sample {
	return []Sample{
		{Op: avgPool2DGrad{[]int{2, 2}, []int{2, 2}, []int{0, 0}, []int{8, 6}}, In: []Arg{f32(2, 3, 4, 3)}},
		{Op: avgPool2DGrad{[]int{3, 2}, []int{2, 1}, []int{1, 1}, []int{7, 5}}, In: []Arg{f32(2, 3, 4, 6)}},
	}
}
