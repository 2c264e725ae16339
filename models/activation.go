package models

import (
	"fmt"
	"maps"
	"slices"

	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// activations maps the names of activation functions in config.json, as transformers calls them.
var activations = map[string]nn.Activation{
	"silu": op.SiLU, "swish": op.SiLU, "relu": op.ReLU, "relu6": op.ReLU6, "tanh": op.Tanh,
	"sigmoid": op.Sigmoid,
	"mish":    op.Mish, "linear": op.Identity, "relu2": squaredReLU, "sqrelu": squaredReLU,
	"gelu": exactGELU, "gelu_python": exactGELU,
	"gelu_new": tanhGELU, "gelu_pytorch_tanh": tanhGELU, "gelu_python_tanh": tanhGELU, "gelu_fast": tanhGELU,
	"gelu_accurate": tanhGELU,
	"gelu_10":       func(x *op.Tensor) *op.Tensor { return op.Clamp(exactGELU(x), -10, 10) },
	"quick_gelu":    func(x *op.Tensor) *op.Tensor { return op.Mul(x, op.Sigmoid(op.MulScalar(x, 1.702))) },
	"leaky_relu":    func(x *op.Tensor) *op.Tensor { return op.LeakyReLU(x, 0.01) },
}

func exactGELU(x *op.Tensor) *op.Tensor   { return op.GELU(x, "none") }
func tanhGELU(x *op.Tensor) *op.Tensor    { return op.GELU(x, "tanh") }
func squaredReLU(x *op.Tensor) *op.Tensor { return op.Square(op.ReLU(x)) }

// activationOf returns the activation function that config.json names.
func activationOf(name string) (nn.Activation, error) {
	if f, ok := activations[name]; ok {
		return f, nil
	}
	return nil, fmt.Errorf("activation %q: not supported: want one of %s", name,
		listed(name, slices.Sorted(maps.Keys(activations))))
}

// gateOf is like activationOf for gated layers, whose own default is silu.
func gateOf(name string) (nn.Activation, error) {
	if name == "silu" || name == "swish" {
		return nil, nil
	}
	return activationOf(name)
}
