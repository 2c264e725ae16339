package nn

import "github.com/galley-ml/galley/op"

// Hook wraps a layer to observe it, like PyTorch's register_forward_hook. Eager tensors have data; traced
// ones have only types. For gradients of a tensor see op.OnGrad.
type Hook struct {
	Layer Layer
	// Forwarded receives the input and the output. If it returns a tensor, that replaces the output.
	Forwarded func(x, y *op.Tensor) *op.Tensor
}

// Forward applies the layer and calls the hook.
func (h Hook) Forward(x *op.Tensor) *op.Tensor {
	y := h.Layer.Forward(x)
	if z := h.Forwarded(x, y); z != nil {
		return z
	}
	return y
}
