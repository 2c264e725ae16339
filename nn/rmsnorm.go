package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// RMSNorm divides the last dim by its root mean square and scales it by what it learns.
type RMSNorm struct {
	Weight *Param
	Eps    float64
	// Offset is added to the weight, which then begins that much lower: 1 in Gemma's norms.
	Offset float64
}

// NewRMSNorm makes a layer that begins with weight 1.
func NewRMSNorm(in *Init, width int, eps float64) *RMSNorm {
	return &RMSNorm{Weight: in.Param("weight", array.Shape{width}, Constant(1)), Eps: eps}
}

// NewOffsetRMSNorm makes a layer that scales by 1 plus a weight, which begins as 0.
func NewOffsetRMSNorm(in *Init, width int, eps float64) *RMSNorm {
	return &RMSNorm{Weight: in.Param("weight", array.Shape{width}, Constant(0)), Eps: eps, Offset: 1}
}

// Forward normalises the last dim of x.
func (l *RMSNorm) Forward(x *op.Tensor) *op.Tensor {
	w := l.Weight.Value
	if l.Offset != 0 {
		w = op.AddScalar(w, l.Offset)
	}
	return op.RMSNorm(x, w, l.Eps)
}
