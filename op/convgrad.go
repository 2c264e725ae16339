package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// convInputGrad computes the gradient of the input, of the given spatial size, from the output's gradient y
// and the kernel.
type convInputGrad struct {
	Stride, Padding, Dilation []int
	Groups                    int
	Size                      []int
}

func (convInputGrad) Name() string    { return "conv_input_grad" }
func (convInputGrad) Linear() [][]int { return [][]int{{0}, {1}} }

func (o convInputGrad) shape(in []Type) (*convShape, error) {
	s, err := newConvShape(o.Stride, o.Padding, o.Dilation, o.Groups)
	if err != nil {
		return nil, err
	}
	y, w := in[0].Shape, in[1].Shape
	if len(y) != s.spatial+2 || len(o.Size) != s.spatial {
		return nil, fmt.Errorf("want batch, channels and %d more dims: got %v and %v", s.spatial, in[0], o.Size)
	}
	if err := s.setInput(y[0], w[1]*s.groups, o.Size); err != nil {
		return nil, err
	}
	if err := s.setKernel(w[0], w); err != nil {
		return nil, err
	}
	if err := s.setOutput(); err != nil {
		return nil, err
	}
	if !s.outputShape().Equal(y) {
		return nil, fmt.Errorf("%v is not the output of kernel %v on size %v", in[0], in[1], o.Size)
	}
	return s, nil
}

func (o convInputGrad) Infer(in []Type) ([]Type, error) {
	if err := wantImages(in); err != nil {
		return nil, err
	}
	s, err := o.shape(in)
	if err != nil {
		return nil, err
	}
	return []Type{{DType: in[0].DType, Shape: s.inputShape()}}, nil
}

func (o convInputGrad) VJP(in, _, dx []*Tensor) []*Tensor {
	y, kernel := in[0], in[1]
	return []*Tensor{
		apply1(conv{o.Stride, o.Padding, o.Dilation, o.Groups}, dx[0], kernel),
		apply1(convKernelGrad{o.Stride, o.Padding, o.Dilation, o.Groups, kernel.Shape()[2:]}, dx[0], y),
	}
}

func (o convInputGrad) Rule(in []Type) mesh.Rule {
	s, err := o.shape(in)
	if err != nil {
		return mesh.Unknown
	}
	return s.rule("y,w", "x")
}

func (o convInputGrad) Localize(at *Place) (Op, error) {
	o.Groups, o.Size = localGroups(at, o.Groups), at.OutShape(0)[2:]
	return o, nil
}

func (o convInputGrad) Work(in, out []Type) Work {
	s, err := o.shape(in)
	if err != nil {
		return Work{}
	}
	return s.work(in, out)
}

func (o convInputGrad) Eval(env *Env, in, out []array.Array) {
	s, _ := o.shape(typesOf(in))
	float(out[0],
		func() {
			convBack(env, s, array.Data[float32](in[0]), array.Data[float32](in[1]), array.Data[float32](out[0]))
		},
		func() {
			convBack(env, s, array.Data[float64](in[0]), array.Data[float64](in[1]), array.Data[float64](out[0]))
		})
}

// Emit convolves y, dilated by the stride, with the flipped kernel.
func (o convInputGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	y, kernel, n := in[0], in[1], len(o.Stride)
	c := hloConv{
		stride: ones(n), low: make([]int, n), high: make([]int, n), dilateIn: o.Stride, dilateKernel: o.Dilation,
		reversed: true, layout: [3]string{"bf", "io", "bf"}, featureGroups: o.Groups,
	}
	for d := range n {
		reach, spread := o.Dilation[d]*(kernel.Shape[2+d]-1), (y.Shape[2+d]-1)*o.Stride[d]+1
		c.low[d] = reach - o.Padding[d]
		c.high[d] = o.Size[d] + reach - spread - c.low[d]
	}
	if o.Groups > 1 {
		kernel = groupKernel(w, kernel, o.Groups)
	}
	return []hlo.Ref{c.emit(w, y, kernel, out[0])}
}

// groupKernel arranges the groups' input channels side by side as the output channels of the transposed
// convolution.
func groupKernel(w *hlo.Writer, kernel hlo.Ref, groups int) hlo.Ref {
	out, in, size := kernel.Shape[0]/groups, kernel.Shape[1], kernel.Shape[2:]
	as := func(lead ...int) hlo.Type {
		return hlo.Type{DType: kernel.DType, Shape: append(array.Shape(lead), size...)}
	}
	perm := append([]int{1, 0}, dimsExcept(3+len(size), 0, 2)...)
	apart := w.Op("reshape", "", as(groups, out, in), kernel)
	swapped := w.Op("transpose", "permutation = "+hlo.Ints(perm), as(out, groups, in), apart)
	return w.Op("reshape", "", as(out, groups*in), swapped)
}

func (convInputGrad) Samples() []Sample {
	return []Sample{
		{Op: convInputGrad{[]int{2, 2}, []int{1, 1}, []int{1, 1}, 1, []int{9, 8}},
			In: []Arg{f32(2, 4, 5, 4), f32(4, 3, 3, 3)}},
		{Op: convInputGrad{[]int{1}, []int{2}, []int{1}, 2, []int{9}}, In: []Arg{f32(2, 6, 11), f32(6, 2, 3)}},
		{Op: convInputGrad{[]int{2, 1}, []int{0, 0}, []int{1, 1}, 1, []int{12, 5}},
			In: []Arg{f32(2, 4, 6, 5), f32(4, 3, 2, 1)}},
		{Op: convInputGrad{[]int{2, 1, 1}, []int{1, 0, 1}, []int{1, 2, 1}, 1, []int{4, 5, 3}},
			In: []Arg{f32(2, 4, 3, 3, 3), f32(4, 2, 2, 2, 3)}},
	}
}

// convKernelGrad computes the gradient of the kernel, of the given spatial size, from the input x and the
// output's gradient y.
type convKernelGrad struct {
	Stride, Padding, Dilation []int
	Groups                    int
	Size                      []int
}

func (convKernelGrad) Name() string    { return "conv_kernel_grad" }
func (convKernelGrad) Linear() [][]int { return [][]int{{0}, {1}} }

func (o convKernelGrad) shape(in []Type) (*convShape, error) {
	s, err := newConvShape(o.Stride, o.Padding, o.Dilation, o.Groups)
	if err != nil {
		return nil, err
	}
	x, y := in[0].Shape, in[1].Shape
	if len(x) != s.spatial+2 || len(o.Size) != s.spatial {
		return nil, fmt.Errorf("want batch, channels and %d more dims: got %v and %v", s.spatial, in[0], o.Size)
	}
	if err := s.setInput(x[0], x[1], x); err != nil {
		return nil, err
	}
	if err := s.setKernel(y[1], o.Size); err != nil {
		return nil, err
	}
	if err := s.setOutput(); err != nil {
		return nil, err
	}
	if !s.outputShape().Equal(y) {
		return nil, fmt.Errorf("%v is not the output of a kernel of size %v on %v", in[1], o.Size, in[0])
	}
	return s, nil
}

func (o convKernelGrad) Infer(in []Type) ([]Type, error) {
	if err := wantImages(in); err != nil {
		return nil, err
	}
	s, err := o.shape(in)
	if err != nil {
		return nil, err
	}
	return []Type{{DType: in[0].DType, Shape: s.kernelShape()}}, nil
}

func (o convKernelGrad) VJP(in, _, dw []*Tensor) []*Tensor {
	x, y := in[0], in[1]
	return []*Tensor{
		apply1(convInputGrad{o.Stride, o.Padding, o.Dilation, o.Groups, x.Shape()[2:]}, y, dw[0]),
		apply1(conv{o.Stride, o.Padding, o.Dilation, o.Groups}, x, dw[0]),
	}
}

func (o convKernelGrad) Rule(in []Type) mesh.Rule {
	s, err := o.shape(in)
	if err != nil {
		return mesh.Unknown
	}
	return s.rule("x,y", "w")
}

func (o convKernelGrad) Localize(at *Place) (Op, error) {
	o.Groups, o.Size = localGroups(at, o.Groups), at.OutShape(0)[2:]
	return o, nil
}

func (o convKernelGrad) Work(in, out []Type) Work {
	s, err := o.shape(in)
	if err != nil {
		return Work{}
	}
	return s.work(in, out)
}

func (o convKernelGrad) Eval(env *Env, in, out []array.Array) {
	s, _ := o.shape(typesOf(in))
	float(out[0],
		func() {
			convKernel(env, s, array.Data[float32](in[0]), array.Data[float32](in[1]), array.Data[float32](out[0]))
		},
		func() {
			convKernel(env, s, array.Data[float64](in[0]), array.Data[float64](in[1]), array.Data[float64](out[0]))
		})
}

// Emit convolves x with y, with batch and channels exchanged, so that it sums over the batch.
func (o convKernelGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	x, y, n := in[0], in[1], len(o.Stride)
	c := hloConv{
		stride: o.Dilation, low: o.Padding, high: make([]int, n), dilateIn: ones(n), dilateKernel: o.Stride,
		layout: [3]string{"fb", "io", "fb"}, batchGroups: o.Groups,
	}
	for d := range n {
		spread := (y.Shape[2+d]-1)*o.Stride[d] + 1
		c.high[d] = (o.Size[d]-1)*o.Dilation[d] + spread - x.Shape[2+d] - o.Padding[d]
	}
	return []hlo.Ref{c.emit(w, x, y, out[0])}
}

func (convKernelGrad) Samples() []Sample {
	return []Sample{
		{Op: convKernelGrad{[]int{2, 2}, []int{1, 1}, []int{1, 1}, 1, []int{3, 3}},
			In: []Arg{f32(2, 3, 9, 8), f32(2, 4, 5, 4)}},
		{Op: convKernelGrad{[]int{1}, []int{2}, []int{1}, 2, []int{3}}, In: []Arg{f32(2, 4, 9), f32(2, 6, 11)}},
		{Op: convKernelGrad{[]int{2, 1}, []int{0, 0}, []int{1, 1}, 1, []int{2, 1}},
			In: []Arg{f32(2, 3, 12, 5), f32(2, 4, 6, 5)}},
		{Op: convKernelGrad{[]int{2, 1, 1}, []int{1, 0, 1}, []int{1, 2, 1}, 1, []int{2, 2, 3}},
			In: []Arg{f32(2, 2, 4, 5, 3), f32(2, 4, 3, 3, 3)}},
	}
}
