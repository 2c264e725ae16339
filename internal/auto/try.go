package auto

import (
	"slices"

	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/strategy"
)

// Count returns the number of candidates.
func Count(c Config) (int, error) {
	f, err := newFinder(&c)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, m := range f.space.meshes() {
		layouts := 1
		for k := range f.space.classes {
			layouts *= len(f.space.weights(k, m))
		}
		for i := range c.Batch {
			layouts *= len(f.space.inputs(i, m))
		}
		n += layouts * len(f.space.micros(m)) * len(f.space.zeros(m)) * len(f.space.recomputes(m))
	}
	return n, nil
}

// Try prices every candidate of the space that Find searches, and returns the best.
func Try(c Config) (*Plan, error) {
	f, err := newFinder(&c)
	if err != nil {
		return nil, err
	}
	for _, m := range f.space.meshes() {
		var found Other
		f.each(m, func(x Candidate) {
			if p := f.price(x); found.Weights == nil || f.better(p, found.Price) {
				found = Other{x, p}
			}
		})
		f.others = append(f.others, found)
		if f.best.Weights == nil || f.better(found.Price, f.best.Price) {
			f.best = found
		}
	}
	p, err := f.done()
	if p != nil {
		p.Bound = p.Seconds
	}
	return p, err
}

// each calls try with every candidate of a mesh.
func (f *finder) each(m strategy.Strategy, try func(Candidate)) {
	for _, micro := range f.space.micros(m) {
		for _, zero := range f.space.zeros(m) {
			for _, r := range f.space.recomputes(m) {
				s := m
				s.Micro, s.Zero, s.Recompute = micro, zero, r
				f.layouts(f.space.whole(s), 0, try)
			}
		}
	}
}

// layouts calls try with every layout of the weights and the batch, starting at a class of weights.
func (f *finder) layouts(c Candidate, at int, try func(Candidate)) {
	classes := f.space.classes
	switch {
	case at < len(classes):
		for _, spec := range f.space.weights(at, c.Strategy) {
			f.layouts(c.withWeights(classes[at], spec), at+1, try)
		}
	case at < len(classes)+len(c.Inputs):
		i := at - len(classes)
		for _, spec := range f.space.inputs(i, c.Strategy) {
			x := c
			x.Inputs = append(slices.Clone(c.Inputs[:i]), append([]mesh.Spec{spec}, c.Inputs[i+1:]...)...)
			f.layouts(x, at+1, try)
		}
	default:
		try(c)
	}
}
