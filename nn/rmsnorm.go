package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// RMSNorm divides the last dim by its root mean square and scales it by what it learns.
type RMSNorm struct {
	Weight *Param
	Eps    float64
}

// NewRMSNorm makes a layer that begins with weight 1.
func NewRMSNorm(in *Init, width int, eps float64) *RMSNorm {
	return &RMSNorm{Weight: in.Param("weight", array.Shape{width}, Constant(1)), Eps: eps}
}

// Forward normalises the last dim of x.
func (l *RMSNorm) Forward(x *op.Tensor) *op.Tensor { return op.RMSNorm(x, l.Weight.Value, l.Eps) }
