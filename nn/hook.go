package nn

import "github.com/galley-ml/galley/op"

// Hook is a layer that is looked at, as PyTorch's register_forward_hook does. Eagerly the tensors have data;
// in a trace they have types. For gradients of a tensor see op.OnGrad.
type Hook struct {
	Layer Layer
	// Forwarded receives what went in and what came out. What it returns, where that is not nil, takes the
	// result's place.
	Forwarded func(x, y *op.Tensor) *op.Tensor
}

// Forward applies the layer and tells the hook.
func (h Hook) Forward(x *op.Tensor) *op.Tensor {
	y := h.Layer.Forward(x)
	if z := h.Forwarded(x, y); z != nil {
		return z
	}
	return y
}
