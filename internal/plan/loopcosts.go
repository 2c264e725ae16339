package plan

import "github.com/galley-ml/galley/internal/pass"

// LoopCosts returns the costs of fused loops on a core of the machine: of a byte, from ops that are
// memory-bound, and of an instruction per element, from products, which are two operations each. Values that
// were not measured are typical ones.
func (h *Host) LoopCosts() pass.Costs {
	c := pass.UsualCosts
	if h.Stream > 0 {
		c.Far = 1e9 / h.Stream
		c.Near *= c.Far / pass.UsualCosts.Far
	}
	if h.Rate > 0 {
		c.Instr = 2e9 / h.Rate
	}
	return c
}
