package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// LayerNorm shifts and scales the last dim to mean 0 and variance 1, then by what it learns.
type LayerNorm struct {
	Weight, Bias *Param
	Eps          float64
}

// NewLayerNorm makes a layer that begins with weight 1 and bias 0.
func NewLayerNorm(in *Init, width int, eps float64) *LayerNorm {
	return &LayerNorm{
		Weight: in.Param("weight", array.Shape{width}, Constant(1)),
		Bias:   in.Param("bias", array.Shape{width}, Constant(0)),
		Eps:    eps,
	}
}

// Forward normalises the last dim of x.
func (l *LayerNorm) Forward(x *op.Tensor) *op.Tensor {
	return op.LayerNorm(x, l.Weight.Value, l.Bias.Value, l.Eps)
}
