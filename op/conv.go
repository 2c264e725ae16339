package op

import (
	"cmp"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Conv1D convolves x [batch, channels, length] with kernel [out channels, channels per group, size] and adds
// bias, a vector of out channels, unless it is nil.
func Conv1D(x, kernel, bias *Tensor, c ConvConfig) *Tensor { return convolve(x, kernel, bias, c, 1) }

// Conv2D convolves x [batch, channels, height, width] with kernel [out channels, channels per group, height,
// width] and adds bias, a vector of out channels, unless it is nil.
func Conv2D(x, kernel, bias *Tensor, c ConvConfig) *Tensor { return convolve(x, kernel, bias, c, 2) }

// Conv3D convolves x [batch, channels, depth, height, width] with kernel [out channels, channels per group,
// depth, height, width] and adds bias, a vector of out channels, unless it is nil.
func Conv3D(x, kernel, bias *Tensor, c ConvConfig) *Tensor { return convolve(x, kernel, bias, c, 3) }

func convolve(x, kernel, bias *Tensor, c ConvConfig, spatial int) *Tensor {
	if len(c.OutputPadding) > 0 {
		return refuse(x, "conv", "output padding %v: want none: only a transposed convolution has it",
			c.OutputPadding)
	}
	y := apply1(conv{
		Stride: perDim(c.Stride, spatial, 1), Padding: perDim(c.Padding, spatial, 0), Dilation: perDim(c.Dilation,
			spatial, 1),
		Groups: cmp.Or(c.Groups, 1),
	}, x, kernel)
	return addChannels(y, bias)
}

// addChannels adds one number per channel to y [batch, channels, …]; a nil bias adds nothing.
func addChannels(y, bias *Tensor) *Tensor {
	if bias == nil || y.Err() != nil {
		return y
	}
	if bias.Err() != nil {
		return bias
	}
	return Add(y, Reshape(bias, append([]int{y.Dim(1)}, ones(len(y.Shape())-2)...)...))
}

// conv is bilinear, as are its two gradients: each of the three ops is differentiated into the other two.
type conv struct {
	Stride, Padding, Dilation []int
	Groups                    int
}

func (conv) Name() string    { return "conv" }
func (conv) Linear() [][]int { return [][]int{{0}, {1}} }

func (o conv) shape(in []Type) (*convShape, error) {
	s, err := newConvShape(o.Stride, o.Padding, o.Dilation, o.Groups)
	if err != nil {
		return nil, err
	}
	x, w := in[0].Shape, in[1].Shape
	if len(x) != s.spatial+2 {
		return nil, fmt.Errorf("want batch, channels and %d more dims: got %v", s.spatial, in[0])
	}
	if err := s.setInput(x[0], x[1], x); err != nil {
		return nil, err
	}
	if err := s.setKernel(w[0], w); err != nil {
		return nil, err
	}
	if w[1] != s.cin {
		return nil, fmt.Errorf("kernel %v: want %d input channels for %v in %d groups", in[1], s.cin, in[0],
			s.groups)
	}
	return s, s.setOutput()
}

func (o conv) Infer(in []Type) ([]Type, error) {
	if err := wantImages(in); err != nil {
		return nil, err
	}
	s, err := o.shape(in)
	if err != nil {
		return nil, err
	}
	return []Type{{DType: in[0].DType, Shape: s.outputShape()}}, nil
}

func (o conv) VJP(in, _, dy []*Tensor) []*Tensor {
	x, kernel := in[0], in[1]
	return []*Tensor{
		apply1(convInputGrad{o.Stride, o.Padding, o.Dilation, o.Groups, x.Shape()[2:]}, dy[0], kernel),
		apply1(convKernelGrad{o.Stride, o.Padding, o.Dilation, o.Groups, kernel.Shape()[2:]}, x, dy[0]),
	}
}

func (o conv) Rule(in []Type) mesh.Rule {
	s, err := o.shape(in)
	if err != nil {
		return mesh.Unknown
	}
	return s.rule("x,w", "y")
}

// Follow lets the result's image have the layout of the input's, for inference, even if windows overlap.
func (o conv) Follow(in, _ []Type) (mesh.Rule, string) {
	s, err := o.shape(in)
	if err != nil {
		return mesh.Unknown, ""
	}
	return s.follow()
}

func (o conv) Localize(at *Place) (Op, error) {
	o.Groups = localGroups(at, o.Groups)
	return o, nil
}

func (o conv) Work(in, out []Type) Work {
	s, err := o.shape(in)
	if err != nil {
		return Work{}
	}
	return s.work(in, out)
}

func (o conv) Eval(env *Env, in, out []array.Array) {
	s, _ := o.shape(typesOf(in))
	float(out[0],
		func() {
			convForward(env, s, array.Data[float32](in[0]), array.Data[float32](in[1]), array.Data[float32](out[0]))
		},
		func() {
			convForward(env, s, array.Data[float64](in[0]), array.Data[float64](in[1]), array.Data[float64](out[0]))
		})
}

func typesOf(as []array.Array) []Type {
	ts := make([]Type, len(as))
	for i, a := range as {
		ts[i] = Type{DType: a.DType(), Shape: a.Shape()}
	}
	return ts
}

func (o conv) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	n := len(o.Stride)
	return []hlo.Ref{hloConv{
		stride: o.Stride, low: o.Padding, high: o.Padding, dilateIn: ones(n), dilateKernel: o.Dilation,
		layout: [3]string{"bf", "oi", "bf"}, featureGroups: o.Groups,
	}.emit(w, in[0], in[1], out[0])}
}

func (conv) Samples() []Sample {
	return []Sample{
		{Op: conv{[]int{2, 2}, []int{1, 1}, []int{1, 1}, 1}, In: []Arg{f32(2, 3, 9, 8), f32(4, 3, 3, 3)}},
		{Op: conv{[]int{1}, []int{2}, []int{1}, 2}, In: []Arg{f32(2, 4, 9), f32(6, 2, 3)}},
		{Op: conv{[]int{1, 3}, []int{0, 2}, []int{2, 1}, 1}, In: []Arg{f32(2, 3, 7, 8), f32(4, 3, 2, 3)}},
		{Op: conv{[]int{1, 1}, []int{0, 0}, []int{1, 1}, 1}, In: []Arg{f32(2, 3, 4, 5), f32(4, 3, 1, 1)}},
		{Op: conv{[]int{2, 3}, []int{0, 0}, []int{1, 1}, 1}, In: []Arg{f32(2, 3, 12, 9), f32(4, 3, 2, 3)}},
		{Op: conv{[]int{2, 1, 1}, []int{1, 0, 1}, []int{1, 2, 1}, 1},
			In: []Arg{f32(2, 2, 4, 5, 3), f32(4, 2, 2, 2, 3)}},
	}
}
