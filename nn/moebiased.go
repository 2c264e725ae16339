package nn

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Constants of GPT-OSS's gates.
const (
	gateBound = 7
	gateSlope = 1.702
)

// NewBiasedMoE makes a mixture as in GPT-OSS: a router and experts with biases, whose matrices are stored
// [in, out].
func NewBiasedMoE(in *Init, c MoEConfig) *MoE {
	experts := in.At("experts")
	return &MoE{
		Router: NewLinear(in.At("router"), c.Hidden, c.Experts),
		GateUp: experts.Param("gate_up_proj", array.Shape{c.Experts, c.Hidden, 2 * c.Intermediate},
			in.weights(c.Hidden)),
		GateUpBias: experts.Param("gate_up_proj_bias", array.Shape{c.Experts, 2 * c.Intermediate}, Constant(0)),
		Down: experts.Param("down_proj", array.Shape{c.Experts, c.Intermediate, c.Hidden},
			in.weights(c.Intermediate)),
		DownBias: experts.Param("down_proj_bias", array.Shape{c.Experts, c.Hidden}, Constant(0)),
		Config:   c,
	}
}

// computeBiased is like compute; of holds the experts of the rows.
func (m *MoE) computeBiased(rows, of, counts *op.Tensor) *op.Tensor {
	product := func(x *op.Tensor, w, bias *Param) *op.Tensor {
		y := op.GroupedMatMulT(x, op.Transpose(w.Value, 0, 2, 1), counts)
		return op.Add(y, op.Embedding(of, bias.Value))
	}
	h := product(rows, m.GateUp, m.GateUpBias)
	if h.Err() != nil {
		return h
	}
	n, width := h.Dim(0), m.Config.Intermediate
	h = op.Reshape(h, n, width, 2)
	gate := op.Clamp(op.Reshape(op.Narrow(h, 2, 0, 1), n, width), math.Inf(-1), gateBound)
	up := op.Clamp(op.Reshape(op.Narrow(h, 2, 1, 2), n, width), -gateBound, gateBound)
	y := op.Mul(op.AddScalar(up, 1), op.Mul(gate, op.Sigmoid(op.MulScalar(gate, gateSlope))))
	return product(y, m.Down, m.DownBias)
}
