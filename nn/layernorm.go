package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// LayerNorm normalises the last dim to mean 0 and variance 1, then applies a learned scale and shift.
type LayerNorm struct {
	Weight, Bias *Param
	Eps          float64
}

// NewLayerNorm makes a layer with an initial weight of 1 and bias of 0.
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
