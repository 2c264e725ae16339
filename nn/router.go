package nn

import "github.com/galley-ml/galley/op"

// Routed is a router's decision: its logits [..., experts] and the chosen experts [..., perToken].
type Routed struct{ Logits, Chosen *op.Tensor }

// Observed returns the same layer, which calls f with each decision of its router.
func (m *MoE) Observed(f func(Routed)) *MoE {
	n := *m
	n.observe = f
	return &n
}

// report calls the observer, if there is one, with a decision.
func (m *MoE) report(logits, chosen *op.Tensor) {
	if m.observe != nil && logits.Err() == nil && chosen.Err() == nil {
		m.observe(Routed{logits, chosen})
	}
}
