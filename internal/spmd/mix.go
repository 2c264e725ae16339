package spmd

import (
	"slices"

	"github.com/galley-ml/galley/mesh"
)

// tryMixes tries every assignment that gives each factor one of its options.
func (c *choice) tryMixes(wants []mesh.Projection) error {
	for a := range c.base.rule.Mixes(c.m, wants, c.base.rule.Unplaceable(c.m, wants)) {
		if err := c.tryBoth(a); err != nil {
			return err
		}
	}
	return nil
}

// refilled returns what tensors might request if the axes of their compound dims were in another order: each
// factor takes whatever divides it, so that a permute before the op avoids a gather.
func (c *choice) refilled() []mesh.Projection {
	var list []mesh.Projection
	for t, s := range slices.Concat(c.have, c.want) {
		w := mesh.Projection{Axes: make([]mesh.Axes, len(c.base.rule.Factors))}
		for d, factors := range c.base.rule.Tensor(t) {
			rest := slices.Clone(s.Dims[d])
			for i, name := range factors {
				f := c.base.rule.Index(name)
				if i == len(factors)-1 {
					w.Axes[f] = rest
					break
				}
				w.Axes[f], rest = c.takeDivisors(c.base.rule.Factors[f].Size, rest)
			}
		}
		list = append(list, w)
	}
	return list
}

// takeDivisors takes the axes, and the parts of axes, that divide n from a list, at any position.
func (c *choice) takeDivisors(n int, list mesh.Axes) (taken, rest mesh.Axes) {
	for _, s := range list {
		k := c.m.Extent(s)
		g := gcd(n, k)
		major, minor, cut := c.m.Cut(s, g)
		switch {
		case g == k:
			taken = append(taken, s)
		case cut:
			taken, rest = append(taken, major), append(rest, minor)
		default:
			rest = append(rest, s)
			g = 1
		}
		n /= g
	}
	return taken, rest
}
