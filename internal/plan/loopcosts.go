package plan

import "github.com/galley-ml/galley/internal/pass"

// LoopCosts returns what loops cost on a core of the machine: a byte as ops that are bound by memory had it,
// and an instruction on an element as products had theirs, which are two operations each. What was not
// measured is as usual.
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
