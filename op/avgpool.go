package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// AvgPool1D returns the mean of each window of x [batch, channels, length]; padding counts as zeros.
func AvgPool1D(x *Tensor, c PoolConfig) *Tensor { return averagePool(x, c, 1) }

// AvgPool2D returns the mean of each window of x [batch, channels, height, width]; padding counts as zeros.
func AvgPool2D(x *Tensor, c PoolConfig) *Tensor { return averagePool(x, c, 2) }

// AvgPool3D returns the mean of each window of x [batch, channels, depth, height, width]; padding counts as
// zeros.
func AvgPool3D(x *Tensor, c PoolConfig) *Tensor { return averagePool(x, c, 3) }

func averagePool(x *Tensor, c PoolConfig, spatial int) *Tensor {
	if c.reaches() {
		return reachingMean(x, c, spatial)
	}
	kernel, stride, pad := c.lists(spatial)
	return apply1(avgPool{kernel, stride, pad}, x)
}

type avgPool struct{ Kernel, Stride, Padding []int }

func (avgPool) Name() string    { return "avg_pool" }
func (avgPool) Linear() [][]int { return [][]int{{0}} }

func (o avgPool) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 1); err != nil {
		return nil, err
	}
	s, err := newPoolShape(in[0], o.Kernel, o.Stride, o.Padding)
	if err != nil {
		return nil, err
	}
	return []Type{{DType: in[0].DType, Shape: s.outputShape()}}, nil
}

func (o avgPool) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{apply1(avgPoolGrad{o.Kernel, o.Stride, o.Padding, in[0].Shape()[2:]}, dy[0])}
}

func (o avgPool) Rule(in []Type) mesh.Rule {
	return poolRule(in[0], o.Kernel, o.Stride, o.Padding, "x", "y")
}

func (o avgPool) Work(in, out []Type) Work { return poolWork(o.Kernel, in, out, out[0]) }

func (o avgPool) Eval(env *Env, in, out []array.Array) {
	s, _ := newPoolShape(typesOf(in)[0], o.Kernel, o.Stride, o.Padding)
	float(out[0],
		func() { averageWindows(env, s, array.Data[float32](out[0]), array.Data[float32](in[0])) },
		func() { averageWindows(env, s, array.Data[float64](out[0]), array.Data[float64](in[0])) })
}

func averageWindows[T floats](env *Env, s *poolShape, y, x []T) {
	size, places, count := s.size(), s.places(), float64(s.count())
	s.planes(env, func(p int) {
		from, to := x[p*size:(p+1)*size], y[p*places:(p+1)*places]
		s.windows(func(at int, cover [3]span) {
			sum := 0.0
			s.lines(cover, func(lo, hi int) {
				for _, v := range from[lo:hi] {
					sum += float64(v)
				}
			})
			to[at] = T(sum / count)
		})
	})
}

func (o avgPool) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	s, _ := newPoolShape(Type{DType: in[0].DType, Shape: in[0].Shape}, o.Kernel, o.Stride, o.Padding)
	total := emitWindow(w, "add", 0, in[0], s.window(), out[0])
	return []hlo.Ref{emitDivide(w, total, float64(s.count()))}
}

func emitDivide(w *hlo.Writer, x hlo.Ref, by float64) hlo.Ref {
	return w.Op("divide", "", x.Type, x, w.Constant(x.Type, by))
}

func (avgPool) Samples() []Sample {
	return []Sample{
		{Op: avgPool{[]int{2, 2}, []int{2, 2}, []int{0, 0}}, In: []Arg{f32(2, 3, 8, 6)}},
		{Op: avgPool{[]int{3, 2}, []int{2, 1}, []int{1, 1}}, In: []Arg{f32(2, 3, 7, 5)}},
		{Op: avgPool{[]int{3}, []int{2}, []int{1}}, In: []Arg{f32(2, 3, 7)}},
		{Op: avgPool{[]int{2, 3, 2}, []int{2, 1, 2}, []int{0, 1, 1}}, In: []Arg{f32(2, 2, 4, 5, 3)}},
	}
}

// avgPoolGrad spreads each element evenly over its window, in an image of the given size.
type avgPoolGrad struct{ Kernel, Stride, Padding, Size []int }

func (avgPoolGrad) Name() string    { return "avg_pool_grad" }
func (avgPoolGrad) Linear() [][]int { return [][]int{{0}} }

// shape returns the shape of the pooling whose gradient this is.
func (o avgPoolGrad) shape(y Type) (*poolShape, error) {
	if len(y.Shape) != 2+len(o.Size) {
		return nil, fmt.Errorf("want batch, channels and %d more dims: got %v", len(o.Size), y)
	}
	x := Type{DType: y.DType, Shape: append(y.Shape[:2].Clone(), o.Size...)}
	return newPoolShape(x, o.Kernel, o.Stride, o.Padding)
}

func (o avgPoolGrad) Infer(in []Type) ([]Type, error) {
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

func (o avgPoolGrad) VJP(_, _, dx []*Tensor) []*Tensor {
	return []*Tensor{apply1(avgPool{o.Kernel, o.Stride, o.Padding}, dx[0])}
}

func (o avgPoolGrad) Rule(in []Type) mesh.Rule {
	s, err := o.shape(in[0])
	if err != nil {
		return mesh.Unknown
	}
	return s.rule("y", "x")
}

func (o avgPoolGrad) Localize(at *Place) (Op, error) {
	o.Size = at.OutShape(0)[2:]
	return o, nil
}

func (o avgPoolGrad) Work(in, out []Type) Work { return poolWork(o.Kernel, in, out, in[0]) }

func (o avgPoolGrad) Eval(env *Env, in, out []array.Array) {
	s, _ := o.shape(typesOf(in)[0])
	float(out[0],
		func() { spreadWindows(env, s, array.Data[float32](out[0]), array.Data[float32](in[0])) },
		func() { spreadWindows(env, s, array.Data[float64](out[0]), array.Data[float64](in[0])) })
}

func spreadWindows[T floats](env *Env, s *poolShape, dx, dy []T) {
	size, places, count := s.size(), s.places(), T(s.count())
	s.planes(env, func(p int) {
		to, from := dx[p*size:(p+1)*size], dy[p*places:(p+1)*places]
		clear(to)
		s.windows(func(at int, cover [3]span) {
			each := from[at] / count
			s.lines(cover, func(lo, hi int) {
				for i := lo; i < hi; i++ {
					to[i] += each
				}
			})
		})
	})
}

// Emit dilates the elements by the stride and sums over windows, one for each input element.
func (o avgPoolGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	s, _ := o.shape(Type{DType: in[0].DType, Shape: in[0].Shape})
	rank := 2 + s.spatial
	p, shape, size := newPad(rank), in[0].Shape.Clone(), ones(rank)
	for d := 2; d < rank; d++ {
		of := d - rank + 3 // index among the three dims of a pooling
		spread := (s.out[of]-1)*s.stride[of] + 1
		p.Interior[d], p.Low[d] = s.stride[of]-1, s.kernel[of]-1-s.pad[of]
		p.High[d] = s.in[of] + s.kernel[of] - 1 - spread - p.Low[d]
		shape[d], size[d] = s.in[of]+s.kernel[of]-1, s.kernel[of]
	}
	padded := p.Emit(w, in, []Type{{DType: in[0].DType, Shape: shape}})[0]
	win := window{size: size, stride: ones(rank), low: make([]int, rank), high: make([]int, rank)}
	return []hlo.Ref{emitDivide(w, emitWindow(w, "add", 0, padded, win, out[0]), float64(s.count()))}
}

func (avgPoolGrad) Samples() []Sample {
	return []Sample{
		{Op: avgPoolGrad{[]int{2, 2}, []int{2, 2}, []int{0, 0}, []int{8, 6}}, In: []Arg{f32(2, 3, 4, 3)}},
		{Op: avgPoolGrad{[]int{3, 2}, []int{2, 1}, []int{1, 1}, []int{7, 5}}, In: []Arg{f32(2, 3, 4, 6)}},
		{Op: avgPoolGrad{[]int{2, 3, 2}, []int{2, 1, 2}, []int{0, 1, 1}, []int{4, 5, 3}},
			In: []Arg{f32(2, 2, 2, 5, 2)}},
	}
}
