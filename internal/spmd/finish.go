package spmd

import (
	"slices"
	"strconv"
)

// finish is a state from which the target is reached by all-to-alls and gathers alone, and its cost.
type finish struct {
	at   state
	cost Cost
	// stay is the number of tokens in their original position: the more, the fewer devices have to send.
	stay int
	ok   bool
}

// stay returns the number of tokens of a state in their original position.
func (p *problem) stay(s state) int {
	n := 0
	for d, list := range s.dims {
		for i, t := range list {
			if i < len(p.from.dims[d]) && p.from.dims[d][i] == t {
				n++
			}
		}
	}
	return n
}

// maxPermutes bounds the number of arrangements that are tried, for one state and in total.
const (
	maxPermutes    = 4000
	maxAllPermutes = 60000
)

// finish returns the cheapest state that a permute can reach from s: one that splits every dim into the same
// pieces.
func (p *problem) finish(s state) finish {
	key := p.cutKey(s)
	if f, ok := p.finishes[key]; ok {
		return f
	}
	a := &arranger{p: p, like: s, left: min(maxPermutes, maxAllPermutes-p.permuted),
		at: state{make([][]uint8, len(s.dims)), s.partial}}
	for _, st := range []state{p.from, p.to, s} {
		for _, list := range st.dims {
			for _, t := range list {
				a.offer(t)
			}
		}
	}
	for i, mark := range s.partial {
		if mark != 0 {
			a.used |= p.tokens[i].mask
		}
	}
	a.dim(0)
	p.permuted += maxPermutes - max(a.left, 0)
	p.finishes[key] = a.best
	return a.best
}

// cutKey returns a key that is equal for states between which a permute is possible.
func (p *problem) cutKey(s state) string {
	var b []byte
	for d, list := range s.dims {
		if p.even(list, p.shape[d]) {
			b = strconv.AppendInt(b, int64(p.count(list)), 10)
		} else {
			for _, t := range list {
				b = append(strconv.AppendInt(b, int64(p.tokens[t].size), 10), '.')
			}
		}
		b = append(b, ',')
	}
	return string(append(b, s.partial...))
}

// arranger tries the ways to split the dims by axes into the numbers of pieces of a state.
type arranger struct {
	p    *problem
	like state
	pool []uint8
	used uint64
	at   state
	best finish
	left int
}

// offer adds a token, and the atoms that it consists of, to those that may be used.
func (a *arranger) offer(t uint8) {
	for _, x := range append([]uint8{t}, a.p.tokens[t].atoms...) {
		if !slices.Contains(a.pool, x) {
			a.pool = append(a.pool, x)
		}
	}
}

// dim arranges dim d and those after it.
func (a *arranger) dim(d int) {
	if d == len(a.like.dims) {
		cost, ok := a.p.finishCost(a.at)
		stay := a.p.stay(a.at)
		if ok && (!a.best.ok || cost.Time < a.best.cost.Time || cost.Time == a.best.cost.Time &&
			stay > a.best.stay) {
			a.best = finish{state{slices.Clone(a.at.dims), a.at.partial}, cost, stay, true}
		}
		return
	}
	if a.p.even(a.like.dims[d], a.p.shape[d]) {
		a.even(d, nil, a.p.count(a.like.dims[d]))
	} else {
		a.uneven(d, nil)
	}
}

// even fills a dim with atoms until they make the remaining number of pieces.
func (a *arranger) even(d int, list []uint8, left int) {
	if left == 1 {
		a.at.dims[d] = slices.Clone(list)
		a.dim(d + 1)
		return
	}
	for _, t := range a.pool {
		tok := a.p.tokens[t]
		if int(t) >= a.p.atoms || tok.mask&a.used != 0 || left%tok.size != 0 || a.left <= 0 {
			continue
		}
		a.left--
		a.used |= tok.mask
		a.even(d, append(list, t), left/tok.size)
		a.used &^= tok.mask
	}
}

// uneven fills a dim with tokens of the same sizes as before: others would split it elsewhere.
func (a *arranger) uneven(d int, list []uint8) {
	if len(list) == len(a.like.dims[d]) {
		a.at.dims[d] = slices.Clone(list)
		a.dim(d + 1)
		return
	}
	for _, t := range a.pool {
		tok := a.p.tokens[t]
		if tok.mask&a.used != 0 || tok.size != a.p.tokens[a.like.dims[d][len(list)]].size || a.left <= 0 {
			continue
		}
		a.left--
		a.used |= tok.mask
		a.uneven(d, append(list, t))
		a.used &^= tok.mask
	}
}

// finishCost returns the cost of reaching the target from a state by all-to-alls and gathers.
func (p *problem) finishCost(s state) (Cost, bool) {
	var cost Cost
	step := func(k Kind, tokens []uint8, next state) {
		cost = cost.Plus(p.prices.price(k, p.count(tokens), p.axes(tokens), p.bytes(s), p.bytes(next)))
		s = next
	}
	for {
		i, j, n := p.placing(s)
		if n > 0 {
			list := s.dims[i]
			moved := list[len(list)-n:]
			step(AllToAll, moved, s.with(i, list[:len(list)-n:len(list)-n]).with(j, appended(s.dims[j], moved)))
			continue
		}
		d, n := p.unwanted(s)
		if n == 0 {
			break
		}
		list := s.dims[d]
		step(AllGather, list[len(list)-n:], s.with(d, list[:len(list)-n:len(list)-n]))
	}
	return cost, slices.EqualFunc(s.dims, p.to.dims, slices.Equal[[]uint8])
}

// placing finds an all-to-all that moves the last n tokens of dim i to their place in dim j.
func (p *problem) placing(s state) (i, j, n int) {
	for i, list := range s.dims {
		tail := list[p.prefix(s, i):]
		for j := range s.dims {
			missing, ready := p.ready(s, j)
			if i == j || !ready {
				continue
			}
			for n := min(len(tail), len(missing)); n > 0; n-- {
				if slices.Equal(tail[len(tail)-n:], missing[:n]) {
					return i, j, n
				}
			}
		}
	}
	return 0, 0, 0
}

// unwanted finds the last n tokens of a dim that the target does not have.
func (p *problem) unwanted(s state) (dim, n int) {
	for d, list := range s.dims {
		n := 0
		for i := len(list) - 1; i >= p.prefix(s, d); i-- {
			if slices.ContainsFunc(p.to.dims, func(l []uint8) bool { return slices.Contains(l, list[i]) }) {
				break
			}
			n++
		}
		if n > 0 {
			return d, n
		}
	}
	return 0, 0
}
