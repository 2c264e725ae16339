package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// GroupNorm normalises groups of channels of x [batch, channels, …] in each sample, then applies a learned
// scale and shift to each channel.
type GroupNorm struct {
	Weight, Bias *Param
	Groups       int
	Eps          float64
}

// NewGroupNorm makes a layer with an initial weight of 1 and bias of 0.
func NewGroupNorm(in *Init, groups, channels int, eps float64) *GroupNorm {
	return &GroupNorm{Groups: groups, Eps: eps, Weight: in.Param("weight", array.Shape{channels}, Constant(1)),
		Bias: in.Param("bias", array.Shape{channels}, Constant(0))}
}

// Forward normalises x.
func (l *GroupNorm) Forward(x *op.Tensor) *op.Tensor {
	return op.GroupNorm(x, l.Groups, l.Weight.Value, l.Bias.Value, l.Eps)
}
