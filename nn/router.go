package nn

import "github.com/galley-ml/galley/op"

// Routed is what a router has decided: its logits [..., experts] and the experts [..., perToken] that it
// chose.
type Routed struct{ Logits, Chosen *op.Tensor }

// Observed returns the same layer, which reports what its router decides each time.
func (m *MoE) Observed(f func(Routed)) *MoE {
	n := *m
	n.observe = f
	return &n
}

// tell reports what was decided, where somebody asked.
func (m *MoE) tell(logits, chosen *op.Tensor) {
	if m.observe != nil && logits.Err() == nil && chosen.Err() == nil {
		m.observe(Routed{logits, chosen})
	}
}
