package shard

import "slices"

// strategy is how an edge propagates axes.
type strategy uint8

const (
	// basic: only what no tensor of the op objects to.
	basic strategy = iota
	// aggressive: the winner if factors request the same axis.
	aggressive
)

func (s strategy) String() string { return [...]string{"basic", "aggressive"}[s] }

// spread propagates axes between the tensors of an edge and reports whether anything changed.
func (g *Graph) spread(e *edge, s strategy, along func(f int) Direction) bool {
	if !g.oneMesh(e) || !g.project(e) {
		return false
	}
	if s == basic {
		g.spreadBasic(e, along)
	} else {
		g.spreadAggressive(e, along)
	}
	return g.store(e)
}

// oneMesh reports whether all tensors that are on a mesh are on the same one.
func (g *Graph) oneMesh(e *edge) bool {
	grid := 0
	for _, v := range e.tensors {
		n := g.values[v].grid
		if grid != 0 && n != 0 && n != grid {
			return false
		}
		grid = max(grid, n)
	}
	return grid != 0
}

// spreadBasic propagates, factor by factor, the longest list that is compatible with every tensor.
func (g *Graph) spreadBasic(e *edge, along func(f int) Direction) {
	for f := range e.rule.Factors {
		axes := g.fold(e, f, along(f))
		for t := range e.tensors {
			if len(axes) == 0 {
				break
			}
			axes = g.cut(e, t, f, axes)
		}
		for t := range e.tensors {
			g.grow(e, t, f, axes)
		}
	}
}

// fold returns the longest list that the tensors agree on: a list that extends another is not a conflict; if
// lists differ, the common prefix is kept and nothing is added any more. Only tensors on the side that the
// direction comes from may add.
func (g *Graph) fold(e *edge, f int, d Direction) refs {
	if d == Nowhere {
		return nil
	}
	var axes refs
	grows := true
	side := func(from, to int, may bool) {
		for t := from; t < to; t++ {
			s := g.work.at(t, f)
			if !s.has || hasPrefix(axes, s.axes) {
				continue
			}
			switch {
			case !hasPrefix(s.axes, axes):
				axes, grows = common(axes, s.axes), false
			case grows && may:
				axes = s.axes
			}
		}
	}
	in, all := e.rule.Operands, len(e.tensors)
	if d == ToOperands {
		side(in, all, true)
		side(0, in, false)
		return axes
	}
	side(0, in, true)
	side(in, all, d == BothWays)
	return axes
}

// cut shortens a list to what tensor t allows for factor f.
func (g *Graph) cut(e *edge, t, f int, axes refs) refs {
	n := 1
	for i, r := range axes {
		got, ok := g.allow(e, t, f, r, n)
		whole := g.gridOf(g.work.gridOf(g, e)).axes
		switch {
		case !ok, g.reach == Narrow && int(got.size) != whole[got.axis].Size:
			return axes[:i:i]
		case got != r:
			return append(axes[:i:i], got)
		}
		n *= int(r.size)
	}
	return axes
}

// allow returns the major part of an axis that may split factor f in tensor t after n pieces, if any.
func (g *Graph) allow(e *edge, t, f int, r ref, n int) (ref, bool) {
	ok := true
	if s := g.work.at(t, f); s.has {
		if r, ok = g.allowWithin(e, t, f, r, n); !ok {
			return r, false
		}
	}
	for h := range e.rule.Factors {
		s := g.work.at(t, h)
		if h == f || !s.has {
			continue
		}
		if r, ok = r.clear(s.axes); !ok {
			return r, false
		}
		if r, ok = r.clear(s.over); !ok {
			return r, false
		}
	}
	return g.clearBare(e, t, r)
}

// clearBare returns the major part of an axis that does not split a dim without factors, which has size one
// and is split nevertheless.
func (g *Graph) clearBare(e *edge, t int, r ref) (ref, bool) {
	ok := true
	for d, factors := range e.rule.Dims[t] {
		if len(factors) > 0 {
			continue
		}
		if r, ok = r.clear(g.values[e.tensors[t]].dims[d].axes); !ok {
			return r, false
		}
	}
	return r, true
}

// allowWithin checks the factor itself: what splits it already may stay; more needs an open dim, no bar, and
// a factor that is the last of its dim or divides.
func (g *Graph) allowWithin(e *edge, t, f int, r ref, n int) (ref, bool) {
	s := g.work.at(t, f)
	for _, x := range s.axes {
		if x.contains(r) {
			return r, true
		}
	}
	if s.closed || len(s.over) > 0 {
		for _, x := range s.axes {
			if x.begins(r) {
				return x, true
			}
		}
		return r, false
	}
	ok := true
	x := &g.values[e.tensors[t]]
	if r, ok = r.clear(x.barred); !ok {
		return r, false
	}
	if r, ok = r.clear(x.held); !ok {
		return r, false
	}
	if s.minor {
		return r, true
	}
	size := e.rule.Factors[f].Size
	if size == 0 || size%n != 0 {
		return r, false
	}
	k := gcd(size/n, int(r.size))
	return ref{r.axis, r.pre, int32(k)}, k > 1 || r.size == 1
}

// grow gives tensor t the list for factor f if it extends its own.
func (g *Graph) grow(e *edge, t, f int, axes refs) {
	s := g.work.at(t, f)
	if !s.has || len(axes) == 0 || hasPrefix(s.axes, axes) || !hasPrefix(axes, s.axes) {
		return
	}
	s.from = -1
	for u := range e.tensors {
		if u != t && g.work.at(u, f).has && hasPrefix(g.work.at(u, f).axes, axes) {
			s.from = u
			break
		}
	}
	s.axes, s.grown = axes, true
}

// source is a factor's list, and the tensor it comes from.
type source struct {
	factor, tensor, size, pieces int
}

// spreadAggressive gives each tensor what it can take, factors in order: the one whose source is the largest
// tensor first, in element-wise ops then the one split most, then the one whose source comes first. Results
// choose before operands, and in element-wise ops an operand takes no more than a result did.
func (g *Graph) spreadAggressive(e *edge, along func(f int) Direction) {
	w := g.work
	w.order, w.found = w.order[:0], w.found[:0]
	for f := range e.rule.Factors {
		axes := g.fold(e, f, along(f))
		w.found = append(w.found, axes)
		if len(axes) > 0 {
			w.order = append(w.order, g.sourceOf(e, f, axes))
		}
	}
	slices.SortStableFunc(w.order, func(a, b source) int {
		if a.size != b.size {
			return b.size - a.size
		}
		if e.rule.elementwise && a.pieces != b.pieces {
			return b.pieces - a.pieces
		}
		if a.tensor != b.tensor {
			return a.tensor - b.tensor
		}
		return a.factor - b.factor
	})
	for i := range e.tensors {
		t := (i + e.rule.Operands) % len(e.tensors) // results first
		for _, x := range w.order {
			if !w.at(t, x.factor).has {
				continue
			}
			axes := w.found[x.factor]
			if e.rule.elementwise && t < e.rule.Operands {
				axes = g.accepted(e, x.factor, axes)
			}
			g.grow(e, t, x.factor, g.cut(e, t, x.factor, axes))
		}
	}
}

// sourceOf returns the largest tensor that has the list, the first of equals.
func (g *Graph) sourceOf(e *edge, f int, axes refs) source {
	best := source{factor: f, tensor: -1, pieces: axes.count()}
	for t, v := range e.tensors {
		s := g.work.at(t, f)
		if size := g.values[v].size; s.has && hasPrefix(s.axes, axes) && (best.tensor < 0 || size > best.size) {
			best.tensor, best.size = t, size
		}
	}
	return best
}

// accepted returns as much of a list as some result has.
func (g *Graph) accepted(e *edge, f int, axes refs) refs {
	var best refs
	for t := e.rule.Operands; t < len(e.tensors); t++ {
		s := g.work.at(t, f)
		if !s.has {
			return axes
		}
		if c := common(axes, s.axes); c.count() > best.count() || len(c) > len(best) {
			best = c
		}
	}
	return best
}
