package mesh

import (
	"iter"
	"slices"
)

// maxMixes bounds the number of assignments that are tried beyond the obvious ones.
const maxMixes = 256

// Mixes returns the legal assignments that give each factor what one of the tensors requests of it, a prefix
// of that, what two of them request together, or nothing; none if there are too many. The axes of lost, which
// no tensor can have where it requests them, may split another factor. Duplicates are possible.
func (p *Parsed) Mixes(m *Mesh, wants []Projection, lost Axes) iter.Seq[Assignment] {
	return func(yield func(Assignment) bool) {
		options := p.options(m, wants, lost)
		mixes := 1
		for _, list := range options {
			if mixes *= len(list); mixes > maxMixes {
				return
			}
		}
		for i := range mixes {
			if a, ok := p.mix(m, options, i); ok && !yield(a) {
				return
			}
		}
	}
}

// mix returns the assignment with a number, and whether its factors use disjoint axes.
func (p *Parsed) mix(m *Mesh, options [][]Axes, i int) (Assignment, bool) {
	a, used := make([]Axes, len(options)), Axes{}
	for f, list := range options {
		a[f] = list[i%len(list)]
		i /= len(list)
		if p.Factors[f].Shared {
			continue
		}
		if !m.disjointAxes(used, a[f]) {
			return nil, false
		}
		used = append(used, a[f]...)
	}
	legal, _ := p.Resolve(m, []Projection{{Axes: a, Rest: make([]Axes, len(a))}})
	return legal, true
}

// options returns the candidate axes of each factor.
func (p *Parsed) options(m *Mesh, wants []Projection, lost Axes) [][]Axes {
	options := make([][]Axes, len(p.Factors))
	for f := range options {
		options[f] = []Axes{nil}
		if p.Factors[f].Whole {
			continue
		}
		offer := func(list Axes) {
			if !slices.ContainsFunc(options[f], list.Equal) {
				options[f] = append(options[f], list)
			}
		}
		for _, w := range wants {
			if len(w.Axes) > 0 {
				for n := range w.Axes[f] {
					offer(w.Axes[f][:n+1])
				}
			}
		}
		for _, list := range slices.Clone(options[f]) {
			for _, w := range wants {
				if len(list) > 0 && len(w.Axes) > 0 && len(w.Axes[f]) > 0 && m.disjointAxes(list, w.Axes[f]) {
					offer(append(slices.Clip(list), w.Axes[f]...))
				}
			}
			if len(lost) > 0 {
				offer(append(slices.Clip(list), lost...))
			}
		}
	}
	return options
}

// disjointAxes reports whether two lists do not overlap.
func (m *Mesh) disjointAxes(a, b Axes) bool {
	return !slices.ContainsFunc(b, func(s Sub) bool { return m.Overlap(s, a) })
}

// Undivided returns the axes that split dims but no factor, because their size does not divide it, and
// nothing else.
func (p *Parsed) Undivided(m *Mesh, wants []Projection) Axes {
	var rest Axes
	for _, w := range wants {
		rest = append(rest, slices.Concat(w.Rest...)...)
	}
	return p.unused(m, wants, rest)
}

// Unplaceable returns the axes that only split dims that must not be split.
func (p *Parsed) Unplaceable(m *Mesh, wants []Projection) Axes {
	var whole Axes
	for _, w := range wants {
		for f, list := range w.Axes {
			if p.Factors[f].Whole {
				whole = append(whole, list...)
			}
		}
	}
	return p.unused(m, wants, whole)
}

// unused returns those of a list, each once, that no tensor requests for a factor that may be split.
func (p *Parsed) unused(m *Mesh, wants []Projection, list Axes) Axes {
	var out, used Axes
	for _, w := range wants {
		for f, axes := range w.Axes {
			if !p.Factors[f].Whole {
				used = append(used, axes...)
			}
		}
	}
	for _, s := range list {
		if !m.Overlap(s, used) && !m.Overlap(s, out) {
			out = append(out, s)
		}
	}
	return out
}
