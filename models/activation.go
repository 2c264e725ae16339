package models

import (
	"fmt"

	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// activationOf returns the function that config.json means by a name.
func activationOf(name string) (nn.Activation, error) {
	switch name {
	case "silu", "swish":
		return op.SiLU, nil
	case "gelu":
		return func(x *op.Tensor) *op.Tensor { return op.GELU(x, "none") }, nil
	case "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate":
		return func(x *op.Tensor) *op.Tensor { return op.GELU(x, "tanh") }, nil
	case "relu":
		return op.ReLU, nil
	case "sqrelu":
		return func(x *op.Tensor) *op.Tensor { return op.Square(op.ReLU(x)) }, nil
	case "tanh":
		return op.Tanh, nil
	case "sigmoid":
		return op.Sigmoid, nil
	}
	return nil, fmt.Errorf("activation %q: not supported: want silu, gelu, gelu_new, gelu_pytorch_tanh, "+
		"relu, sqrelu, tanh or sigmoid", name)
}

// gateOf is like activationOf for gated layers, whose own default is silu.
func gateOf(name string) (nn.Activation, error) {
	if name == "silu" || name == "swish" {
		return nil, nil
	}
	return activationOf(name)
}
