package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// RMSNorm divides the last dim by its root mean square and scales it by a learned weight.
type RMSNorm struct {
	Weight *Param
	Eps    float64
	// Offset is added to the weight: 1 in Gemma's norms, whose weights start at 0.
	Offset float64
}

// NewRMSNorm makes a layer whose weight starts at 1.
func NewRMSNorm(in *Init, width int, eps float64) *RMSNorm {
	return &RMSNorm{Weight: in.Param("weight", array.Shape{width}, Constant(1)), Eps: eps}
}

// NewOffsetRMSNorm makes a layer that scales by 1 plus its weight, which starts at 0.
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
