package nn

import "github.com/galley-ml/galley/op"

// Layer maps one tensor to another.
type Layer interface {
	Forward(x *op.Tensor) *op.Tensor
}

// Func makes a layer of a function such as op.ReLU.
type Func func(x *op.Tensor) *op.Tensor

// Forward calls the function.
func (f Func) Forward(x *op.Tensor) *op.Tensor { return f(x) }

// Sequential is a layer that applies others one after the other.
//
//	net := nn.Sequential{nn.NewConv2D(in.Index(0), 1, 8, 3, op.ConvConfig{}), nn.Func(op.ReLU), nn.Func(nn.Flatten)}
type Sequential []Layer

// Forward applies the layers in order.
func (s Sequential) Forward(x *op.Tensor) *op.Tensor {
	for _, l := range s {
		x = l.Forward(x)
	}
	return x
}

// Flatten merges all dims of x but the first into one.
func Flatten(x *op.Tensor) *op.Tensor {
	if x.Err() != nil || len(x.Shape()) == 0 {
		return x
	}
	return op.Reshape(x, x.Dim(0), x.Shape()[1:].Len())
}
