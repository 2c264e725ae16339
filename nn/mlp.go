package nn

import "github.com/galley-ml/galley/op"

// Activation is an elementwise function between two layers.
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

// gated returns act(gate)·up.
func gated(act Activation, gate, up *op.Tensor) *op.Tensor {
	if act == nil {
		return op.SwiGLU(gate, up)
	}
	return op.Mul(act(gate), up)
}

// FusedGatedMLP is GatedMLP with one matrix for gate and up, the gates first.
type FusedGatedMLP struct {
	GateUp, Down *Linear
	// Act is as GatedMLP's.
	Act Activation
}

// Forward applies the layer to the last dim of x.
func (l *FusedGatedMLP) Forward(x *op.Tensor) *op.Tensor {
	h := l.GateUp.Forward(x)
	if h.Err() != nil {
		return h
	}
	parts := op.Chunk(h, -1, 2)
	return l.Down.Forward(gated(l.Act, parts[0], parts[1]))
}

// Projection is a product with weights and an optional bias: a Linear or a Dense.
type Projection interface {
	Forward(x *op.Tensor) *op.Tensor
}

// MLP is proj(act(fc(x))).
type MLP struct {
	FC, Proj Projection
	Act      Activation
}

// Forward applies the layer to the last dim of x.
func (l *MLP) Forward(x *op.Tensor) *op.Tensor { return l.Proj.Forward(l.Act(l.FC.Forward(x))) }
