package shard

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// cheapest returns the assignment that moves the fewest bytes among a few: what the tensors request, the
// larger first; and, if that leaves requests ungranted, what each tensor requests with the others adapting to
// it, and ungranted axes moved to the major factor of their dim.
func (c *chooser) cheapest() (mesh.Assignment, []mesh.Conflict) {
	asked := cloneWants(c.wants)
	c.preferLarger()
	best, conflicts := c.p.Resolve(c.m, c.wants)
	if len(conflicts) == 0 && len(c.reasons) == 0 {
		return best, nil
	}
	price := c.price(best)
	try := func(a mesh.Assignment, left []mesh.Conflict) {
		if p := c.price(a); p < price*(1-1e-9) {
			best, conflicts, price = a, left, p
		}
	}
	for t, w := range asked {
		if len(w.Axes) == 0 {
			continue
		}
		a, left := c.p.Resolve(c.m, c.follow(asked, t))
		try(a, left)
		try(c.majors(a, left))
	}
	try(c.majors(best, conflicts))
	for a := range c.p.Mixes(c.m, asked, c.p.Undivided(c.m, asked)) {
		if c.ways(a) >= c.ways(best) { // fewer bytes do not help if devices repeat work for it
			try(a, c.ungranted(asked, a))
		}
	}
	return best, conflicts
}

// ways returns the number of parts into which an assignment splits the work.
func (c *chooser) ways(a mesh.Assignment) int { return c.m.Count(slices.Concat(a...)) }

// ungranted returns the requests of tensors that an assignment does not grant.
func (c *chooser) ungranted(asked []mesh.Projection, a mesh.Assignment) []mesh.Conflict {
	given := mesh.Projection{Axes: a, Rest: make([]mesh.Axes, len(a))}
	_, left := c.p.Resolve(c.m, append([]mesh.Projection{given}, asked...))
	return left
}

func cloneWants(list []mesh.Projection) []mesh.Projection {
	out := slices.Clone(list)
	for i := range out {
		out[i].Axes = slices.Clone(out[i].Axes)
	}
	return out
}

// follow returns what the tensors request if they adapt to one of them: the same for a factor that it splits,
// and then those of their axes that it does not use.
func (c *chooser) follow(asked []mesh.Projection, leader int) []mesh.Projection {
	list := cloneWants(asked)
	var used mesh.Axes
	for _, axes := range list[leader].Axes {
		used = append(used, axes...)
	}
	lead := list[leader].Axes
	for t := range list {
		if t == leader {
			continue
		}
		for f, axes := range list[t].Axes {
			if len(axes) == 0 || c.m.HasPrefix(lead[f], axes) || c.m.HasPrefix(axes, lead[f]) && len(lead[f]) > 0 {
				continue
			}
			rest := slices.Clone(lead[f])
			for _, x := range axes {
				if !c.m.Overlap(x, used) {
					rest = append(rest, x)
				}
			}
			list[t].Axes[f] = rest
		}
	}
	list[0], list[leader] = list[leader], list[0]
	return list
}

// majors moves axes that would scatter a compound dim to the first of its factors that they divide.
func (c *chooser) majors(a mesh.Assignment, left []mesh.Conflict) (mesh.Assignment, []mesh.Conflict) {
	a = a.Clone()
	for _, x := range left {
		if x.Kind != mesh.Scattered || x.Tensor < 0 {
			continue
		}
		for _, factors := range c.p.Tensor(x.Tensor) {
			if !slices.Contains(factors, x.Name) {
				continue
			}
			f := c.p.Index(factors[0])
			longer := append(slices.Clone(a[f]), x.Axes...)
			if c.p.Factors[f].Size%c.m.Count(longer) == 0 {
				old := a[f]
				if a[f] = longer; len(c.p.Check(c.m, a)) > 0 {
					a[f] = old
				}
			}
		}
	}
	return a, left
}

// price returns the bytes that a device receives to reshard operands as the assignment requires, and to
// reduce results.
func (c *chooser) price(a mesh.Assignment) float64 {
	total := 0.0
	for t, have := range c.given {
		if have != nil {
			total += c.received(c.types[t], *have, c.p.Spec(c.m, t, a))
		}
	}
	for t := len(c.p.In); t < c.p.NumTensors(); t++ {
		s := c.p.Spec(c.m, t, a)
		for _, p := range s.Partial {
			k := float64(c.m.Extent(p.Sub))
			total += 2 * (k - 1) / k * c.local(c.types[t], s)
		}
	}
	return total
}

// local returns the bytes of a device's shard, as if sizes divided evenly.
func (c *chooser) local(t ir.Type, s mesh.Spec) float64 {
	n := float64(t.Bytes())
	for _, axes := range s.Dims {
		n /= float64(c.m.Count(axes))
	}
	return n
}

// received returns the bytes of its new shard that a device does not hold.
func (c *chooser) received(t ir.Type, have, want mesh.Spec) float64 {
	share := 1.0
	for d, axes := range want.Dims {
		if !c.m.HasPrefix(axes, have.Dims[d]) {
			common := c.m.Common(have.Dims[d], axes)
			share *= float64(c.m.Count(common)) / float64(c.m.Count(have.Dims[d]))
		}
	}
	return c.local(t, want) * (1 - share)
}
