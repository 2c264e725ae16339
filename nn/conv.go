package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Conv is a convolution over one, two or three dims of x [batch, channels, …], or the transpose of one.
type Conv struct {
	// Weight is [to, from/groups, sizes …]; of a transposed convolution [from, to/groups, sizes …].
	Weight *Param
	// Bias is nil in a layer without one.
	Bias   *Param
	Config op.ConvConfig

	forward func(x, kernel, bias *op.Tensor, c op.ConvConfig) *op.Tensor
}

// NewConv1D makes a convolution over sequences with a kernel of the given size, and a bias.
func NewConv1D(in *Init, from, to, size int, c op.ConvConfig) *Conv {
	return newConv(in, from, to, []int{size}, c, op.Conv1D)
}

// NewConv2D makes a convolution over images with a square kernel, and a bias.
func NewConv2D(in *Init, from, to, size int, c op.ConvConfig) *Conv {
	return newConv(in, from, to, []int{size, size}, c, op.Conv2D)
}

// NewConv3D makes a convolution over volumes with a cubic kernel, and a bias.
func NewConv3D(in *Init, from, to, size int, c op.ConvConfig) *Conv {
	return newConv(in, from, to, []int{size, size, size}, c, op.Conv3D)
}

// NewConvTranspose1D makes a transposed convolution over sequences, and a bias.
func NewConvTranspose1D(in *Init, from, to, size int, c op.ConvConfig) *Conv {
	return newTransposed(in, from, to, []int{size}, c, op.ConvTranspose1D)
}

// NewConvTranspose2D makes a transposed convolution over images with a square kernel, and a bias.
func NewConvTranspose2D(in *Init, from, to, size int, c op.ConvConfig) *Conv {
	return newTransposed(in, from, to, []int{size, size}, c, op.ConvTranspose2D)
}

type convolution = func(x, kernel, bias *op.Tensor, c op.ConvConfig) *op.Tensor

func newConv(in *Init, from, to int, sizes []int, c op.ConvConfig, f convolution) *Conv {
	shape := append(array.Shape{to, from / max(c.Groups, 1)}, sizes...)
	fanIn := shape[1:].Len()
	return &Conv{Config: c, forward: f, Weight: in.Param("weight", shape, in.weights(fanIn)),
		Bias: in.Param("bias", array.Shape{to}, in.biases(fanIn))}
}

func newTransposed(in *Init, from, to int, sizes []int, c op.ConvConfig, f convolution) *Conv {
	shape := append(array.Shape{from, to / max(c.Groups, 1)}, sizes...)
	fanIn := shape[1:].Len() // PyTorch's own count for a transposed kernel
	return &Conv{Config: c, forward: f, Weight: in.Param("weight", shape, in.weights(fanIn)),
		Bias: in.Param("bias", array.Shape{to}, in.biases(fanIn))}
}

// Forward applies the layer to x [batch, channels, …].
func (l *Conv) Forward(x *op.Tensor) *op.Tensor {
	var bias *op.Tensor
	if l.Bias != nil {
		bias = l.Bias.Value
	}
	return l.forward(x, l.Weight.Value, bias, l.Config)
}
