package nn

import "github.com/galley-ml/galley/op"

// Activation is a function of each element between two layers.
type Activation func(x *op.Tensor) *op.Tensor

// GatedMLP is down(act(gate(x)) · up(x)).
type GatedMLP struct {
	Gate, Up, Down *Linear
	// Act is nil for SiLU, which runs fused with the product.
	Act Activation
}

// Forward applies the layer to the last dim of x.
func (l *GatedMLP) Forward(x *op.Tensor) *op.Tensor {
	return l.Down.Forward(gated(l.Act, l.Gate.Forward(x), l.Up.Forward(x)))
}

// gated is act(gate)·up.
func gated(act Activation, gate, up *op.Tensor) *op.Tensor {
	if act == nil {
		return op.SwiGLU(gate, up)
	}
	return op.Mul(act(gate), up)
}

// MLP is proj(act(fc(x))), with weights as GPT-2 has them.
type MLP struct {
	FC, Proj *Dense
	Act      Activation
}

// Forward applies the layer to the last dim of x.
func (l *MLP) Forward(x *op.Tensor) *op.Tensor { return l.Proj.Forward(l.Act(l.FC.Forward(x))) }
