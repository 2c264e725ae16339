package spmd

import (
	"slices"

	"github.com/galley-ml/galley/mesh"
)

// token is an axis or a part of one in the search. The first tokens are atoms: parts of axes that the two
// Specs do not split further. Others consist of atoms, or overlap them.
type token struct {
	sub   mesh.Sub
	size  int
	mask  uint64
	atoms []uint8 // whose product the token is; nil if it is not a product of atoms
}

// state is a Spec in the search.
type state struct {
	// dims holds the tokens of each dim. If they divide the dim evenly they are atoms; otherwise splitting by
	// the parts of an axis one after the other differs from splitting by the axis, and tokens stay as they are.
	dims [][]uint8
	// partial is, for each atom, 0 or one more than the reduction that is pending along it.
	partial []uint8
}

func (s state) key() string {
	b := make([]byte, 0, 32)
	for _, d := range s.dims {
		b = append(append(b, d...), 0xff)
	}
	return string(append(b, s.partial...))
}

func (s state) equal(o state) bool {
	return slices.Equal(s.partial, o.partial) && slices.EqualFunc(s.dims, o.dims, slices.Equal[[]uint8])
}

// with returns the state with another list for one dim.
func (s state) with(dim int, list []uint8) state {
	dims := slices.Clone(s.dims)
	dims[dim] = list
	return state{dims, s.partial}
}

// pending returns the state with another reduction pending along atoms; 0 means none.
func (s state) pending(atoms []uint8, mark uint8) state {
	partial := slices.Clone(s.partial)
	for _, a := range atoms {
		partial[a] = mark
	}
	return state{s.dims, partial}
}

// problem is one search.
type problem struct {
	m      *mesh.Mesh
	shape  []int
	elem   float64 // bytes of an element
	prices Prices
	link   Link // the cheapest
	tokens []token
	atoms  int
	from   state
	to     state
	// finishes caches, for each way to split the dims into numbers of pieces, the best state from which the
	// target is reached without a permute.
	finishes map[string]finish
	// permuted counts what was tried for them.
	permuted int
}

// newProblem reads both Specs; it splits axes into atoms fine enough for either.
func newProblem(m *mesh.Mesh, shape []int, elem int, prices Prices, from, to mesh.Spec,
	fine fineness) *problem {
	p := &problem{m: m, shape: shape, elem: float64(elem), prices: prices, finishes: map[string]finish{}}
	cuts := boundaries(m, from, to)
	if fine == byDivisors {
		refine(m, cuts, from, to)
	}
	p.atomize(cuts)
	p.atoms = len(p.tokens)
	p.link = prices.cheapest(p.axes(p.all()))
	p.from, p.to = p.read(from), p.read(to)
	return p
}

// all returns the atoms.
func (p *problem) all() []uint8 {
	var list []uint8
	for a := range p.atoms {
		list = append(list, uint8(a))
	}
	return list
}

// fineness is how far axes are split.
type fineness int

const (
	asWritten  fineness = iota // only where a Spec splits them
	byDivisors                 // also where that makes parts of the same size as those of other axes
)

// bounds holds where one axis is split: the cumulative products of its parts, including 1 and the axis's
// size.
type bounds struct {
	axis mesh.Axis
	at   []int
}

// insert adds a cut, unless parts would then overlap.
func (b *bounds) insert(x int) {
	i, found := slices.BinarySearch(b.at, x)
	if found || b.at[len(b.at)-1]%x != 0 || i == 0 || x%b.at[i-1] != 0 || b.at[i]%x != 0 {
		return
	}
	b.at = slices.Insert(b.at, i, x)
}

// chained reports whether all cuts of an axis are compatible: each divides the next.
func chained(a mesh.Axis, specs ...mesh.Spec) bool {
	var at []int
	for _, s := range specs {
		for _, x := range s.Used() {
			if x.Axis == a.Name && x.Size != 0 {
				at = append(at, x.Pre, x.Pre*x.Size)
			}
		}
	}
	slices.Sort(at)
	for i := 1; i < len(at); i++ {
		if at[i]%at[i-1] != 0 {
			return false
		}
	}
	return true
}

// boundaries returns the cuts of all axes that the Specs use.
func boundaries(m *mesh.Mesh, specs ...mesh.Spec) []bounds {
	var list []bounds
	for _, a := range m.Axes() {
		b := bounds{a, []int{1, a.Size}}
		used := false
		for _, s := range specs {
			for _, x := range s.Used() {
				if x.Axis != a.Name {
					continue
				}
				used = true
				if x.Size != 0 {
					b.insert(x.Pre)
					b.insert(x.Pre * x.Size)
				}
			}
		}
		if used && a.Size > 1 {
			list = append(list, b)
		}
	}
	return list
}

// refine splits what only one of the Specs uses into parts of the sizes of the other's.
func refine(m *mesh.Mesh, cuts []bounds, from, to mesh.Spec) {
	for i := range cuts {
		for j := range cuts {
			for k := 1; i != j && k < len(cuts[j].at); k++ {
				size := cuts[j].at[k] / cuts[j].at[k-1]
				for h := 1; h < len(cuts[i].at); h++ {
					lo, own := cuts[i].at[h-1], cuts[i].at[h]/cuts[i].at[h-1]
					if g := gcd(own, size); g > 1 && g < own {
						cuts[i].insert(lo * g)
					}
				}
			}
		}
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// atomize makes the atoms.
func (p *problem) atomize(cuts []bounds) {
	for _, b := range cuts {
		for k := 1; k < len(b.at); k++ {
			size := b.at[k] / b.at[k-1]
			sub := mesh.Sub{Axis: b.axis.Name, Pre: b.at[k-1], Size: size}
			if size == b.axis.Size {
				sub = mesh.Sub{Axis: b.axis.Name}
			}
			id := uint8(len(p.tokens))
			p.tokens = append(p.tokens, token{sub, size, 1 << id, []uint8{id}})
		}
	}
}

// token returns the number of an axis or a part of one.
func (p *problem) token(s mesh.Sub) uint8 {
	for i, t := range p.tokens {
		if t.sub == s {
			return uint8(i)
		}
	}
	t := token{sub: s, size: p.m.Extent(s)}
	product := 1
	for i, a := range p.tokens[:p.atoms] {
		if p.m.Overlap(a.sub, mesh.Axes{s}) {
			t.mask |= a.mask
			t.atoms, product = append(t.atoms, uint8(i)), product*a.size
		}
	}
	if product != t.size {
		t.atoms = nil
	}
	p.tokens = append(p.tokens, t)
	return uint8(len(p.tokens) - 1)
}

func (p *problem) read(s mesh.Spec) state {
	st := state{dims: make([][]uint8, len(s.Dims)), partial: make([]uint8, p.atoms)}
	for d, axes := range s.Dims {
		var list []uint8
		for _, x := range axes {
			if p.m.Extent(x) > 1 {
				list = append(list, p.token(x))
			}
		}
		st.dims[d] = p.canonical(list, p.shape[d])
	}
	for _, x := range s.Partial {
		if p.m.Extent(x.Sub) > 1 {
			for _, a := range p.tokens[p.token(x.Sub)].atoms {
				st.partial[a] = 1 + uint8(x.Reduce)
			}
		}
	}
	return st
}

// canonical splits tokens into atoms if that does not change the layout of a dim of size n.
func (p *problem) canonical(list []uint8, n int) []uint8 {
	out := make([]uint8, 0, len(list)+2)
	count := 1
	for _, t := range list {
		count *= p.tokens[t].size
		if atoms := p.tokens[t].atoms; atoms != nil && n%count == 0 {
			out = append(out, atoms...)
		} else {
			out = append(out, t)
		}
	}
	return out
}

// spec returns a state as a Spec.
func (p *problem) spec(s state) mesh.Spec {
	spec := mesh.Whole(len(s.dims))
	for d, list := range s.dims {
		spec.Dims[d] = p.axes(list)
	}
	var partial []mesh.Pending
	for a, mark := range s.partial {
		if mark == 0 {
			continue
		}
		x := mesh.Pending{Sub: p.tokens[a].sub, Reduce: mesh.Reduce(mark - 1)}
		if k := len(partial) - 1; k >= 0 && partial[k].Reduce == x.Reduce {
			if whole, ok := p.m.Join(partial[k].Sub, x.Sub); ok {
				partial[k].Sub = whole
				continue
			}
		}
		partial = append(partial, x)
	}
	return spec.With(partial...).Simplify(p.m, p.shape)
}

// axes returns a list of tokens as axes, each by itself.
func (p *problem) axes(list []uint8) mesh.Axes {
	var axes mesh.Axes
	for _, t := range list {
		axes = append(axes, p.tokens[t].sub)
	}
	return axes
}

// joinedAxes returns a list of atoms as axes with adjacent parts of one axis merged: for reductions, or for
// axes that divide a dim evenly.
func (p *problem) joinedAxes(list []uint8) mesh.Axes {
	var axes mesh.Axes
	for _, t := range list {
		s := p.tokens[t].sub
		if k := len(axes) - 1; k >= 0 {
			if whole, ok := p.m.Join(axes[k], s); ok {
				axes[k] = whole
				continue
			}
		}
		axes = append(axes, s)
	}
	return axes
}

// count returns the number of positions along a list.
func (p *problem) count(list []uint8) int {
	n := 1
	for _, t := range list {
		n *= p.tokens[t].size
	}
	return n
}

// bytes returns the size of the largest shard.
func (p *problem) bytes(s state) float64 {
	b := p.elem
	for d, list := range s.dims {
		n := p.shape[d]
		for _, t := range list {
			n = (n + p.tokens[t].size - 1) / p.tokens[t].size
		}
		b *= float64(n)
	}
	return b
}

// even reports whether a list divides a dim of size n.
func (p *problem) even(list []uint8, n int) bool { return n%p.count(list) == 0 }

// used returns the atoms that a state uses.
func (p *problem) used(s state) uint64 {
	var mask uint64
	for _, list := range s.dims {
		for _, t := range list {
			mask |= p.tokens[t].mask
		}
	}
	for a, mark := range s.partial {
		if mark != 0 {
			mask |= p.tokens[a].mask
		}
	}
	return mask
}
