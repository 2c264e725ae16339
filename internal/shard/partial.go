package shard

import (
	"slices"

	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// passPartial decides which partial axes stay: forward those of operands, which the results then have, too;
// backward those requested of results, which the operands must then have. All others are reduced.
func (c *chooser) passPartial(in, out []mesh.Spec) {
	kept := make([][]mesh.Pending, len(in))
	for _, p := range c.pendings(len(in)) {
		if used, ok := c.splits(p.Sub, in, out); ok {
			c.say("partial over %s is reduced: the axis splits %s", p, used)
			continue
		}
		group := c.linearIn(p, in)
		if group == nil {
			c.say("partial over %s is reduced: %s is not linear in what holds it", p, c.o.Name())
			continue
		}
		for _, i := range group {
			kept[i] = append(kept[i], p)
		}
		for i := range out {
			out[i] = out[i].With(append(slices.Clone(out[i].Partial), p)...)
		}
		c.say("partial over %s passes: %s is linear in %s", p, c.o.Name(), c.names(group))
	}
	for i := range in {
		in[i] = in[i].With(kept[i]...)
	}
}

// pendings returns the partial axes that operands have, or that are requested of results, each once.
func (c *chooser) pendings(operands int) []mesh.Pending {
	var list []mesh.Pending
	for t, w := range c.wants {
		for _, p := range w.Partial {
			if t >= operands && c.made(p) || c.m.Extent(p.Sub) == 1 {
				continue
			}
			if !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}
	return list
}

// made reports whether a result is partial over the axis because a factor is reduced.
func (c *chooser) made(p mesh.Pending) bool {
	for f, factor := range c.p.Factors {
		if c.p.Reduced(f) && factor.Reduce == p.Reduce {
			for _, w := range c.wants {
				if len(w.Axes) > 0 && c.m.Overlap(p.Sub, w.Axes[f]) {
					return true
				}
			}
		}
	}
	return false
}

// splits reports whether the axis splits some tensor or makes results partial, and which.
func (c *chooser) splits(axis mesh.Sub, in, out []mesh.Spec) (string, bool) {
	for t, s := range slices.Concat(in, out) {
		if c.m.Overlap(axis, s.Used()) {
			return c.p.Name(t), true
		}
	}
	return "", false
}

// linearIn returns the operands that may stay partial over p together: one group in which the op is linear;
// nil means none. Along one axis a product may have only one partial operand; the others are reduced, the
// smaller ones first.
func (c *chooser) linearIn(p mesh.Pending, in []mesh.Spec) []int {
	if p.Reduce != mesh.Sum && p.Reduce != mesh.Mean || !c.floatResults(len(in)) {
		return nil
	}
	var best []int
	for _, group := range groupsOf(c.o, len(in)) {
		held, ok := c.holds(group, p, len(in))
		if ok && len(held) > 0 && (best == nil || c.size(held) > c.size(best)) {
			best = held
		}
	}
	return best
}

// holds returns the operands of a group that have the partial axis, and whether the others allow it. Sums
// need all of them: every term must be partial on every device. The mean of a replicated value is the value
// itself.
func (c *chooser) holds(group []int, p mesh.Pending, operands int) (held []int, ok bool) {
	backward := c.wanted(p, operands)
	ok = true
	for _, i := range group {
		switch {
		case !c.types[i].DType.IsFloat():
			return nil, false
		case backward || slices.Contains(c.wants[i].Partial, p):
			held = append(held, i)
		case c.overlapsPartial(p, i) || p.Reduce == mesh.Sum:
			ok = false
		}
	}
	return held, ok
}

// wanted reports whether results request the partial axis.
func (c *chooser) wanted(p mesh.Pending, operands int) bool {
	for _, w := range c.wants[operands:] {
		if slices.Contains(w.Partial, p) {
			return true
		}
	}
	return false
}

// overlapsPartial reports whether an operand is partial over the axis in another way.
func (c *chooser) overlapsPartial(p mesh.Pending, operand int) bool {
	for _, q := range c.wants[operand].Partial {
		if q != p && c.m.Overlap(p.Sub, mesh.Axes{q.Sub}) {
			return true
		}
	}
	return false
}

func (c *chooser) size(operands []int) int {
	n := 0
	for _, i := range operands {
		n += c.types[i].Shape.Len()
	}
	return n
}

// floatResults reports whether results can be summed.
func (c *chooser) floatResults(operands int) bool {
	for _, t := range c.types[operands:] {
		if !t.DType.IsFloat() {
			return false
		}
	}
	return true
}

func (c *chooser) names(operands []int) string {
	text := ""
	for i, t := range operands {
		if i > 0 {
			text += " and "
		}
		text += c.p.Name(t)
	}
	return text
}

// groupsOf returns the groups of operands in which an op is linear.
func groupsOf(o op.Op, operands int) [][]int {
	l, ok := o.(op.Multilinear)
	if !ok {
		return nil
	}
	groups := l.Linear()
	for i, g := range groups {
		if len(g) > 0 {
			continue
		}
		for t := range operands {
			groups[i] = append(groups[i], t)
		}
	}
	return groups
}
