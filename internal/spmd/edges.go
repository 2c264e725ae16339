package spmd

import (
	"slices"

	"github.com/galley-ml/galley/mesh"
)

// edge is a move between states.
type edge struct {
	kind   Kind
	tokens []uint8
	dim    int
	from   int
	reduce mesh.Reduce
	next   state
	cost   Cost
}

// edges returns the moves from a state. They do not involve axes that neither Spec names, nor dims that
// already match the target.
func (p *problem) edges(s state) []edge {
	var list []edge
	add := func(e edge) {
		for d := range e.next.dims {
			e.next.dims[d] = p.canonical(e.next.dims[d], p.shape[d])
		}
		e.cost = p.prices.price(e.kind, p.count(e.tokens), p.axes(e.tokens), p.bytes(s), p.bytes(e.next))
		list = append(list, e)
	}
	if p.rightSlice(s, add) {
		return list // it is free, necessary, and makes everything after it cheaper
	}
	p.slices(s, add)
	p.gathers(s, add)
	p.exchanges(s, add)
	p.reductions(s, add)
	p.partials(s, add)
	p.permutes(s, add)
	return list
}

// prefix returns the number of tokens of a dim that match the target.
func (p *problem) prefix(s state, d int) int {
	n := 0
	for n < len(s.dims[d]) && n < len(p.to.dims[d]) && s.dims[d][n] == p.to.dims[d][n] {
		n++
	}
	return n
}

// ready reports whether all tokens of a dim match the target, and returns those that are missing after them.
func (p *problem) ready(s state, d int) ([]uint8, bool) {
	n := p.prefix(s, d)
	return p.to.dims[d][n:], n == len(s.dims[d])
}

// rightSlice slices a dim by a free axis that comes next in it, and reports whether there is one.
func (p *problem) rightSlice(s state, add func(edge)) bool {
	used := p.used(s)
	for d := range s.dims {
		missing, ready := p.ready(s, d)
		if ready && len(missing) > 0 && p.tokens[missing[0]].mask&used == 0 {
			add(edge{kind: Slice, tokens: missing[:1], dim: d, next: s.with(d, appended(s.dims[d], missing[:1]))})
			return true
		}
	}
	return false
}

// slices slices dims by free axes that split another dim in the target, so that they can move there together
// with others.
func (p *problem) slices(s state, add func(edge)) {
	free := p.wanted() &^ p.used(s)
	for d := range s.dims {
		if len(s.dims[d]) == 0 && len(p.to.dims[d]) == 0 {
			continue
		}
		for a := range p.atoms {
			t := []uint8{uint8(a)}
			if list := appended(s.dims[d], t); p.tokens[a].mask&free != 0 && p.even(list, p.shape[d]) {
				add(edge{kind: Slice, tokens: t, dim: d, next: s.with(d, list)})
			}
		}
	}
}

// wanted returns the atoms that split dims in the target.
func (p *problem) wanted() uint64 {
	var mask uint64
	for _, list := range p.to.dims {
		for _, t := range list {
			for _, a := range p.tokens[t].atoms {
				mask |= p.tokens[a].mask
			}
		}
	}
	return mask
}

func appended(list, more []uint8) []uint8 { return append(slices.Clip(slices.Clone(list)), more...) }

// gathers gathers dims over their last axes.
func (p *problem) gathers(s state, add func(edge)) {
	for d, list := range s.dims {
		for i := p.prefix(s, d); i < len(list); i++ {
			add(edge{kind: AllGather, tokens: list[i:], dim: d, next: s.with(d, slices.Clone(list[:i]))})
		}
	}
}

// exchanges moves the last axes of one dim to the end of another.
func (p *problem) exchanges(s state, add func(edge)) {
	for i, list := range s.dims {
		for k := p.prefix(s, i); k < len(list); k++ {
			for j := range s.dims {
				if i == j {
					continue
				}
				next := s.with(i, slices.Clone(list[:k])).with(j, appended(s.dims[j], list[k:]))
				add(edge{kind: AllToAll, tokens: list[k:], dim: j, from: i, next: next})
			}
		}
	}
}

// reductions reduces partial axes that the target does not have: with an all-reduce, or with a
// reduce-scatter.
func (p *problem) reductions(s state, add func(edge)) {
	kinds := p.pendingKinds(s)
	for _, kind := range kinds {
		if slices.ContainsFunc(kinds, func(k uint8) bool { return reduceOf(k).Before(reduceOf(kind)) }) {
			continue
		}
		var all, unwanted []uint8
		wanted := p.wanted()
		for a, mark := range s.partial {
			if mark == kind && (p.to.partial[a] != kind || p.hides(s, kind)) {
				all = append(all, uint8(a))
				if p.tokens[a].mask&wanted == 0 {
					unwanted = append(unwanted, uint8(a))
				}
			}
		}
		by := reduceOf(kind)
		for _, atoms := range [][]uint8{all, unwanted} {
			if len(atoms) > 0 {
				add(edge{kind: AllReduce, tokens: atoms, reduce: by, next: s.pending(atoms, 0)})
			}
		}
		for d := range s.dims {
			for _, run := range p.runs(all) {
				next := s.pending(p.atomsOf(run), 0).with(d, appended(s.dims[d], run))
				add(edge{kind: ReduceScatter, tokens: run, dim: d, reduce: by, next: next})
			}
		}
	}
}

// reduceOf returns the reduction of a mark.
func reduceOf(mark uint8) mesh.Reduce { return mesh.Reduce(mark - 1) }

// pendingKinds returns the reductions, each once, that have to be applied on the way to the target.
func (p *problem) pendingKinds(s state) []uint8 {
	var kinds []uint8
	for a, mark := range s.partial {
		if mark != 0 && !slices.Contains(kinds, mark) && (p.to.partial[a] != mark || p.hides(s, mark)) {
			kinds = append(kinds, mark)
		}
	}
	return kinds
}

// hides reports whether a reduction has to wait for a pending one inside it: a sum of maxima requires the
// maxima first.
func (p *problem) hides(s state, inner uint8) bool {
	for a, mark := range s.partial {
		if mark != 0 && mark != p.to.partial[a] && reduceOf(inner).Before(reduceOf(mark)) {
			return true
		}
	}
	return false
}

// atomsOf returns the atoms that tokens consist of: if a dim is split unevenly, its tokens may be products of
// several.
func (p *problem) atomsOf(tokens []uint8) []uint8 {
	var list []uint8
	for _, t := range tokens {
		list = append(list, p.tokens[t].atoms...)
	}
	return list
}

// runs returns the longest runs in the target's dims that consist of the given atoms.
func (p *problem) runs(atoms []uint8) [][]uint8 {
	var runs [][]uint8
	for _, list := range p.to.dims {
		var run []uint8
		for _, t := range list {
			parts := p.tokens[t].atoms
			if parts != nil && !slices.ContainsFunc(parts, func(a uint8) bool { return !slices.Contains(atoms, a) }) {
				run = append(run, t)
				continue
			}
			if len(run) > 0 {
				runs = append(runs, run)
			}
			run = nil
		}
		if len(run) > 0 {
			runs = append(runs, run)
		}
	}
	return runs
}

// partials turns replicated or sharded axes into partial ones if the target has them.
func (p *problem) partials(s state, add func(edge)) {
	used := p.used(s)
	for a, kind := range p.to.partial {
		if kind == 0 || s.partial[a] == kind {
			continue
		}
		atom := []uint8{uint8(a)}
		if p.tokens[a].mask&used == 0 {
			add(edge{kind: Mask, tokens: atom, reduce: mesh.Reduce(kind - 1), next: s.pending(atom, kind)})
		}
		for d, list := range s.dims {
			if n := len(list); n > p.prefix(s, d) && list[n-1] == uint8(a) && onlyPending(s, kind) {
				next := s.with(d, slices.Clone(list[:n-1])).pending(atom, kind)
				add(edge{kind: Pad, tokens: atom, dim: d, reduce: mesh.Reduce(kind - 1), next: next})
			}
		}
	}
}

// onlyPending reports whether only one kind of reduction is pending. The neutral element of one is not that
// of another.
func onlyPending(s state, kind uint8) bool {
	return !slices.ContainsFunc(s.partial, func(mark uint8) bool { return mark != 0 && mark != kind })
}

// permutes sends whole shards, to the best state that splits the dims into the same pieces; if sizes are
// uneven, the target itself is reached by point-to-point messages.
func (p *problem) permutes(s state, add func(edge)) {
	if f := p.finish(s); f.ok && !f.at.equal(s) {
		moved := p.changed(s, f.at)
		add(edge{kind: Permute, tokens: moved, next: state{slices.Clone(f.at.dims), f.at.partial}})
	}
	if p.prices.Plain || !slices.Equal(s.partial, p.to.partial) ||
		slices.ContainsFunc(s.partial, func(m uint8) bool { return m != 0 }) {
		return
	}
	for d := range s.dims {
		if !p.even(s.dims[d], p.shape[d]) || !p.even(p.to.dims[d], p.shape[d]) {
			add(edge{kind: Exchange, tokens: p.changed(s, p.to), next: state{slices.Clone(p.to.dims), p.to.partial}})
			return
		}
	}
}

// changed returns the tokens of dims that differ between two states.
func (p *problem) changed(a, b state) []uint8 {
	var list []uint8
	for d := range a.dims {
		if slices.Equal(a.dims[d], b.dims[d]) {
			continue
		}
		for _, t := range append(slices.Clone(a.dims[d]), b.dims[d]...) {
			if !slices.Contains(list, t) {
				list = append(list, t)
			}
		}
	}
	return list
}
