package shard

import "slices"

// slot describes how one tensor splits one factor of an edge.
type slot struct {
	axes refs
	// over holds axes that follow in the dim and divide neither the factor nor those after it.
	over refs
	has  bool
	// closed: no axis may be added. minor: the factor is the last of its dim, so that it may be split unevenly.
	closed, minor bool
	// from is the tensor from which axes were added.
	from  int
	grown bool
}

// work is scratch memory of one visit: a table of slots, tensor by tensor.
type work struct {
	slots []slot
	per   int
	order []source
	found []refs
}

func (w *work) at(t, f int) *slot { return &w.slots[t*w.per+f] }

// project fills the table for an edge. It reports whether any tensor splits anything.
func (g *Graph) project(e *edge) bool {
	w := g.work
	w.per = len(e.rule.Factors)
	n := w.per * len(e.tensors)
	if cap(w.slots) < n {
		w.slots = make([]slot, n)
	}
	w.slots = w.slots[:n]
	clear(w.slots)
	any := false
	for t, v := range e.tensors {
		x := &g.values[v]
		for d, factors := range e.rule.Dims[t] {
			any = any || len(x.dims[d].axes) > 0
			g.projectDim(e, t, x.dims[d], factors)
		}
	}
	return any
}

// projectDim assigns a dim's axes to its factors, major first: each takes what divides it, including parts of
// axes, and the last one all that remain.
func (g *Graph) projectDim(e *edge, t int, x dim, factors []int) {
	left := x.axes
	for i, f := range factors {
		s := g.work.at(t, f)
		s.has, s.closed, s.minor = true, !x.open, i == len(factors)-1
		if s.minor {
			s.axes = left
			continue
		}
		if len(left) == 0 {
			continue
		}
		stuck := false
		s.axes, left, stuck = fill(e.rule.Factors[f].Size, left)
		if stuck {
			s.over, left = left, nil
			for _, h := range factors[i+1:] {
				g.work.at(t, h).has = true
				g.work.at(t, h).closed = true
				g.work.at(t, h).minor = h == factors[len(factors)-1]
			}
			return
		}
	}
}

// fill takes the axes that divide n from the list, splitting one if a part of it does. It is stuck if n is
// not used up and the next axis has no common divisor with the remainder.
func fill(n int, list refs) (taken, left refs, stuck bool) {
	for len(list) > 0 {
		r := list[0]
		k := gcd(n, int(r.size))
		switch {
		case k == int(r.size):
			taken, list = append(taken, r), list[1:]
		case n == 1:
			return taken, list, false
		case k == 1:
			return taken, list, true
		default:
			major := ref{r.axis, r.pre, int32(k)}
			taken = append(taken, major)
			list = append(refs{rest(r, major)}, list[1:]...)
		}
		n /= k
	}
	return taken, nil, false
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// store writes extended slots back into the values. It reports whether any dim changed.
func (g *Graph) store(e *edge) bool {
	changed := false
	for t, v := range e.tensors {
		for d, factors := range e.rule.Dims[t] {
			if g.grown(t, factors) && g.storeDim(e, t, v, d, factors) {
				changed = true
			}
		}
	}
	return changed
}

func (g *Graph) grown(t int, factors []int) bool {
	return slices.ContainsFunc(factors, func(f int) bool { return g.work.at(t, f).grown })
}

// storeDim concatenates the factors' axes. A factor that is not split completely must be the last, because
// pieces must be contiguous.
func (g *Graph) storeDim(e *edge, t, v, d int, factors []int) bool {
	var axes refs
	from := -1
	for i, f := range factors {
		s := g.work.at(t, f)
		if s.grown && from < 0 {
			from = s.from
		}
		axes = append(append(axes, s.axes...), s.over...)
		if i < len(factors)-1 && s.axes.count() != e.rule.Factors[f].Size {
			break
		}
	}
	x := &g.values[v]
	axes = axes.joined(x.shape[d])
	if slices.Equal(axes, x.dims[d].axes) || x.hasElsewhere(d, axes) {
		return false
	}
	x.dims[d].axes = axes
	x.version++
	x.grid = g.work.gridOf(g, e)
	g.explain(e, v, d, from)
	return true
}

// hasElsewhere reports whether a part of axes splits another dim of the value, which an op that takes the
// value twice may have just stored.
func (x *value) hasElsewhere(dim int, axes refs) bool {
	for d := range x.dims {
		for _, r := range axes {
			if got, ok := r.clear(x.dims[d].axes); d != dim && (!ok || got != r) {
				return true
			}
		}
	}
	return false
}

func (w *work) gridOf(g *Graph, e *edge) int {
	for _, v := range e.tensors {
		if n := g.values[v].grid; n != 0 {
			return n
		}
	}
	return 0
}

// explain records where a dim's axes came from.
func (g *Graph) explain(e *edge, v, d, from int) {
	x := &g.values[v]
	g.trace = append(g.trace, Choice{
		Value: v, Dim: d, Axes: g.gridOf(x.grid).names(x.dims[d].axes), From: e.tensors[max(from, 0)],
		By: e.name, Pos: e.pos, Round: g.round.String(),
	})
}
