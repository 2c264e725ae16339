package nn

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// MoEConfig configures a mixture of experts.
type MoEConfig struct {
	Hidden, Intermediate int
	// Experts is the number of experts, PerToken how many of them each token is routed to (top-k).
	Experts, PerToken int
	// Act is nil for SiLU.
	Act Activation
	// Routing says how experts are chosen and weighted.
	Routing Routing
	// Fused computes all experts as one op, which expert-parallel devices compute together by sending tokens
	// to their experts. It stores no inner activations and recomputes them for gradients. Act must be nil.
	Fused bool
	// Capacity, if not 0, limits the tokens per expert to that multiple of the even share; later tokens
	// beyond it are dropped. It needs Fused.
	Capacity float64
}

// MoE is a mixture of experts: a router sends each token to some of several gated MLPs. No token is dropped
// unless Capacity is set.
type MoE struct {
	Router *Linear
	// Bias [experts], if not nil, is added to the router's scores for choosing experts but not for weighting
	// them. It is not trained.
	Bias *Param
	// GateUp [experts, 2·intermediate, hidden] and Down [experts, hidden, intermediate] are all experts'
	// matrices; the first half of GateUp's rows are the gates.
	GateUp, Down *Param
	// GateUpBias [experts, 2·intermediate] and DownBias [experts, hidden], if not nil, are those of GPT-OSS: the
	// matrices are then [experts, in, out], gates and ups are interleaved, and both are clamped.
	GateUpBias, DownBias *Param
	// Shared, if not nil, is a shared expert that processes every token.
	Shared *GatedMLP
	// SharedGate, if not nil, computes the logit of the shared expert's weight for a token, a sigmoid.
	SharedGate *Linear
	Config     MoEConfig
	// observe, if not nil, receives the router's decisions.
	observe func(Routed)
}

// NewMoE makes a layer.
func NewMoE(in *Init, c MoEConfig) *MoE {
	experts := in.At("experts")
	return &MoE{
		Router: NewLinearNoBias(in.At("gate"), c.Hidden, c.Experts),
		GateUp: experts.Param("gate_up_proj", array.Shape{c.Experts, 2 * c.Intermediate, c.Hidden},
			in.weights(c.Hidden)),
		Down: experts.Param("down_proj", array.Shape{c.Experts, c.Hidden, c.Intermediate},
			in.weights(c.Intermediate)),
		Config: c,
	}
}

// Forward applies the layer to the last dim of x.
func (m *MoE) Forward(x *op.Tensor) *op.Tensor {
	y := m.routed(x)
	if m.Shared == nil {
		return y
	}
	shared := m.Shared.Forward(x)
	if m.SharedGate != nil {
		shared = op.Mul(op.Sigmoid(m.SharedGate.Forward(x)), shared)
	}
	return op.Add(y, shared)
}

// routed returns the output of the experts that the router chooses.
func (m *MoE) routed(x *op.Tensor) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	if m.Config.Fused && m.Config.Act == nil && m.GateUpBias == nil {
		return m.fused(x)
	}
	shape := x.Shape()
	tokens := op.Reshape(x, shape[:max(0, len(shape)-1)].Len(), x.Dim(-1))
	weights, experts := m.route(tokens)
	if experts.Err() != nil {
		return experts
	}
	n := tokens.Dim(0) * m.Config.PerToken
	order, counts := op.MoESort(op.Reshape(experts, n), m.Config.Experts)
	rows := op.Div(order, op.Const(order, float64(m.Config.PerToken)))
	chosen := op.IndexSelect(tokens, 0, rows)
	var y *op.Tensor
	if m.GateUpBias != nil {
		y = m.computeBiased(chosen, op.IndexSelect(op.Reshape(experts, n), 0, order), counts)
	} else {
		y = m.compute(chosen, counts)
	}
	y = op.Mul(y, op.Reshape(op.IndexSelect(op.Reshape(weights, n), 0, order), n, 1))
	return op.Reshape(op.IndexAdd(op.ZerosLike(tokens), 0, rows, y), shape...)
}

// fused computes routed as one op, on x in its layout.
func (m *MoE) fused(x *op.Tensor) *op.Tensor {
	weights, experts := m.route(x)
	if experts.Err() != nil {
		return experts
	}
	c := m.Config
	if c.Capacity > 0 {
		even := float64(experts.Shape().Len()) / float64(c.Experts)
		experts = op.LimitChoices(experts, c.Experts, int(math.Ceil(c.Capacity*even)))
	}
	gateUp := op.Reshape(m.GateUp.Value, c.Experts, 2, c.Intermediate, c.Hidden)
	return op.Experts(x, experts, weights, gateUp, m.Down.Value)
}

// compute returns the experts' MLPs on rows that are sorted by expert; counts holds the number of rows of
// each.
func (m *MoE) compute(rows, counts *op.Tensor) *op.Tensor {
	h := op.GroupedMatMulT(rows, m.GateUp.Value, counts)
	if h.Err() != nil {
		return h
	}
	parts := op.Chunk(h, -1, 2)
	return op.GroupedMatMulT(gated(m.Config.Act, parts[0], parts[1]), m.Down.Value, counts)
}
