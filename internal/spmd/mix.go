package spmd

import (
	"slices"

	"github.com/galley-ml/galley/mesh"
)

// maxMixes bounds how many assignments are tried beyond the obvious.
const maxMixes = 256

// tryMixes tries every assignment that gives each factor one of its options.
func (c *choice) tryMixes(wants []mesh.Projection) error {
	options := c.options(wants)
	mixes := 1
	for _, list := range options {
		if mixes *= len(list); mixes > maxMixes {
			return nil
		}
	}
	for i := range mixes {
		a, used := make([]mesh.Axes, len(options)), mesh.Axes{}
		clash := false
		for f, list := range options {
			a[f] = list[i%len(list)]
			i /= len(list)
			if c.base.rule.Factors[f].Shared {
				continue
			}
			clash = clash || !c.apart(used, a[f])
			used = append(used, a[f]...)
		}
		if clash {
			continue
		}
		legal, _ := c.base.rule.Resolve(c.m, []mesh.Projection{{Axes: a, Rest: make([]mesh.Axes, len(a))}})
		if err := c.tryBoth(legal); err != nil {
			return err
		}
	}
	return nil
}

// options is what each factor may be split by: what one of the tensors wants of it, the beginning of that, what two of
// them want together, or nothing; axes that no tensor can have where it wants them may go on with another factor.
func (c *choice) options(wants []mesh.Projection) [][]mesh.Axes {
	options := make([][]mesh.Axes, len(c.base.rule.Factors))
	homeless := c.homeless(wants)
	for f := range options {
		options[f] = []mesh.Axes{nil}
		if c.base.rule.Factors[f].Whole {
			continue
		}
		offer := func(list mesh.Axes) {
			if !slices.ContainsFunc(options[f], list.Equal) {
				options[f] = append(options[f], list)
			}
		}
		for _, w := range wants {
			for n := range w.Axes[f] {
				offer(w.Axes[f][:n+1])
			}
		}
		for _, list := range slices.Clone(options[f]) {
			for _, w := range wants {
				if len(list) > 0 && len(w.Axes[f]) > 0 && c.apart(list, w.Axes[f]) {
					offer(append(slices.Clip(list), w.Axes[f]...))
				}
			}
			if len(homeless) > 0 {
				offer(append(slices.Clip(list), homeless...))
			}
		}
	}
	return options
}

// refilled is what tensors might want if the axes of their compound dims stood in another order: each factor takes whatever
// divides it, so that a permute before the op spares a gather.
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

// takeDivisors takes from a list the axes, and the parts of axes, that divide n, wherever they stand.
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

// apart reports whether two lists share nothing.
func (c *choice) apart(a, b mesh.Axes) bool {
	return !slices.ContainsFunc(b, func(s mesh.Sub) bool { return c.m.Overlap(s, a) })
}

// homeless is the axes that split dims which must be whole, and nothing else.
func (c *choice) homeless(wants []mesh.Projection) mesh.Axes {
	var out, used mesh.Axes
	for _, w := range wants {
		for f, list := range w.Axes {
			if !c.base.rule.Factors[f].Whole {
				used = append(used, list...)
			}
		}
	}
	for _, w := range wants {
		for f, list := range w.Axes {
			for _, s := range list {
				if c.base.rule.Factors[f].Whole && !c.m.Overlap(s, used) && !c.m.Overlap(s, out) {
					out = append(out, s)
				}
			}
		}
	}
	return out
}
