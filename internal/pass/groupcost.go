package pass

import (
	"slices"
	"sync/atomic"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Costs are approximate costs of loops, in nanoseconds on one core, accurate enough for decisions.
type Costs struct {
	// Far is the cost of a byte from memory, Near of one from the L2 cache.
	Far, Near float64
	// Instr is the cost of an instruction on one 32-bit float, in generated code.
	Instr float64
}

// UsualCosts are the costs of a typical machine, for machines that were not measured.
var UsualCosts = Costs{Far: 0.10, Near: 0.03, Instr: 0.015}

// measured holds the costs of this machine, if it was measured.
var measured atomic.Pointer[Costs]

// SetCosts sets the measured costs of this machine for loops made from now on.
func SetCosts(c Costs) { measured.Store(&c) }

func costs() Costs {
	if c := measured.Load(); c != nil {
		return *c
	}
	return UsualCosts
}

const (
	nearBytes   = 1 << 20
	leastStrips = 1 << 20
	leastElems  = 1 << 9
)

// perByte returns the cost of a byte of a value of that size.
func (c Costs) perByte(bytes int) float64 {
	if bytes > nearBytes {
		return c.Far
	}
	return c.Near
}

// instructions returns the cost of a node's instructions on elems elements: a vector has half as many 64-bit
// floats.
func (c Costs) instructions(ln *op.LoopNode, elems int) float64 {
	return float64(ln.Instructions()*elems) * c.Instr * float64(ln.LaneBytes()) / 4
}

// compute lets loops recompute values that another loop would have to store for them, if that takes less
// time: cheap elements of values that both read anyway.
func (g *Grouping) compute() {
	for i := len(g.nodes) - 1; i >= 0; i-- {
		if g.unit[i].plan == nil || g.free(i) || !g.cheap(i) {
			continue
		}
		v := g.nodes[i].Out()[0]
		readers := g.outsideReaders(i)
		if len(readers) == 0 || slices.Contains(g.f.Results(), v) {
			continue
		}
		for _, u := range readers {
			g.tryAgain(i, u)
		}
	}
}

// cheap reports whether a node's elements may be recomputed: it must be elementwise.
func (g *Grouping) cheap(i int) bool {
	k := g.loops[i].Kind()
	return k == op.LoopMap || k == op.LoopRepeat || k == op.LoopSame || k == op.LoopWalk
}

// outsideReaders returns the other loops that read a node's result; none if anything else reads it, too.
func (g *Grouping) outsideReaders(i int) []*unit {
	var list []*unit
	for _, next := range g.users[i] {
		u := g.unit[next]
		if u == g.unit[i] {
			continue
		}
		if u.plan == nil {
			return nil
		}
		if !slices.Contains(list, u) {
			list = append(list, u)
		}
	}
	return list
}

// tryAgain recomputes node i in u, with what it needs from its own loop, if that saves time.
func (g *Grouping) tryAgain(i int, u *unit) {
	cone := g.cone(i, u, nil)
	all := slices.Concat(u.nodes, u.again, cone)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > maxNodes {
		return
	}
	v := g.nodes[i].Out()[0]
	work := 0.0
	for _, k := range cone {
		if !slices.Contains(u.again, k) {
			work += g.costs.instructions(g.loops[k], v.Shape().Len())
		}
	}
	saved := 2 * float64(v.Type().Bytes()) * g.costs.perByte(v.Type().Bytes())
	for _, x := range g.newReads(cone, u) {
		saved -= float64(x.Type().Bytes()) * g.costs.perByte(x.Type().Bytes())
	}
	if saved <= work {
		return
	}
	plan, err := op.PlanLoop(g.with(all))
	if err != nil {
		return
	}
	u.again = append(u.again, cone...)
	slices.Sort(u.again)
	u.again, u.plan = slices.Compact(u.again), plan
}

// cone returns node i and the nodes of its loop that it depends on, except those that are stored once a row.
func (g *Grouping) cone(i int, u *unit, list []int) []int {
	if slices.Contains(list, i) || slices.Contains(u.again, i) || g.unit[i] == u {
		return list
	}
	list = append(list, i)
	for _, x := range g.nodes[i].In() {
		if x.Node() == nil {
			continue
		}
		k := g.at[x.Node()]
		if g.unit[k] == g.unit[i] && !g.free(k) && g.cheap(k) && g.loops[k].Size() == g.loops[i].Size() {
			list = g.cone(k, u, list)
		}
	}
	return list
}

// newReads returns the values that nodes read and a unit does not: parameters, and results of other units.
func (g *Grouping) newReads(nodes []int, u *unit) []*ir.Value {
	have := map[*ir.Value]bool{}
	for _, i := range slices.Concat(u.nodes, u.again) {
		have[g.nodes[i].Out()[0]] = true
		for _, x := range g.nodes[i].In() {
			have[x] = true
		}
	}
	for _, i := range nodes {
		have[g.nodes[i].Out()[0]] = true
	}
	var list []*ir.Value
	for _, i := range nodes {
		for _, x := range g.nodes[i].In() {
			if !have[x] && (x.Node() == nil || !g.free(g.at[x.Node()])) {
				have[x] = true
				list = append(list, x)
			}
		}
	}
	return list
}

// drop splits loops that would gain nothing.
func (g *Grouping) drop() {
	for i := range g.nodes {
		u := g.unit[i]
		if u.plan == nil || u.nodes[0] != i {
			continue
		}
		if reason := g.idle(u); reason != "" {
			for _, k := range u.nodes {
				g.unit[k] = &unit{nodes: []int{k}, kept: reason}
			}
		}
	}
}

// idle returns why a loop would not be faster than its nodes.
func (g *Grouping) idle(u *unit) string {
	work := 0
	for _, i := range u.nodes {
		if k := g.loops[i].Kind(); k != op.LoopConstant && k != op.LoopSame {
			work++
		}
	}
	size := u.plan.Rows * u.plan.Cols
	switch {
	case work < 2:
		return "one op"
	case size < leastElems:
		return "few elements"
	case !op.LoopsCompiled() && 4*size < leastStrips:
		return "strips do not gain on what stays in the cache"
	}
	return ""
}
