package cpu

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// home is where a value is stored while a program runs.
type home uint8

const (
	homeArena  home = iota // offset bytes into the arena
	homeParam              // the caller's array for a parameter
	homeResult             // an array that the run returns
	homePieces             // offloaded: ops that read the parameter fetch pieces of it
	homeSpent              // offset bytes into a parameter that is no longer read
)

// place is a value's memory. Values that share memory share a place.
type place struct {
	home   home
	index  int // of the param or result
	offset int // in the arena, or in a spent parameter
	bytes  int
	first  int // node that writes it first; -1 for a param
	last   int // node that reads it last; len(nodes) for a result
	owned  bool
}

// plan is the memory of one program: a place for every value and the arena's size.
type plan struct {
	places []*place
	arena  int
	// scratch holds the memory that nodes need while they compute, by node; nil means none.
	scratch []*place
	// resultOf[i] is where result i is read from.
	resultOf []*place
	// taken[i] is the result that takes over donated param i's memory, or -1.
	taken     []int
	transfers transfers
}

// planner assigns places node by node.
type planner struct {
	f       *ir.Func
	lastUse []int
	donated []bool
	spent   []int
	plan
}

// planMemory decides where every value is stored. donated[i] allows param i's memory to be used for a result;
// other values may use that of the spent ones. It returns an error if the total is too large for memory, so
// that no offset overflows.
func planMemory(f *ir.Func, donated []bool, spent []int, offloaded Offloaded) (*plan, error) {
	defer fault.Pass("memory plan", f)
	p := &planner{f: f, donated: donated, spent: spent, lastUse: lastUses(f)}
	p.places, p.scratch = make([]*place, f.NumValues()), make([]*place, len(f.Nodes()))
	p.taken = slices.Repeat([]int{-1}, len(f.Params()))
	for i, v := range f.Params() {
		p.places[v.ID()] = &place{home: homeParam, index: i, first: -1, last: p.lastUse[v.ID()],
			bytes: v.Type().Bytes(), owned: donated[i] || slices.Contains(spent, i)}
	}
	p.scheduleFetches(offloaded)
	for i, n := range f.Nodes() {
		p.node(i, n)
	}
	for id, at := range p.places {
		if at != nil && at.bytes >= array.MaxBytes {
			return nil, fmt.Errorf("value %%%d: got %d bytes, want fewer than %d", id, at.bytes, array.MaxBytes)
		}
	}
	p.results()
	return &p.plan, p.pack()
}

// lastUses returns for each value the last node that reads it; len(nodes) for results, -1 if there is none.
func lastUses(f *ir.Func) []int {
	last := lastReads(f)
	for _, v := range f.Results() {
		last[v.ID()] = len(f.Nodes())
	}
	return last
}

// lastReads is like lastUses, counting the program's nodes only.
func lastReads(f *ir.Func) []int {
	last := slices.Repeat([]int{-1}, f.NumValues())
	for i, n := range f.Nodes() {
		for _, v := range n.In() {
			last[v.ID()] = i
		}
	}
	return last
}

func (p *planner) node(i int, n *ir.Node) {
	if _, ok := n.Op().(op.Aliaser); ok {
		src := p.places[n.In()[0].ID()]
		src.last = max(src.last, p.lastUse[n.Out()[0].ID()], i)
		p.places[n.Out()[0].ID()] = src
		return
	}
	if s, ok := n.Op().(op.Scratcher); ok {
		if bytes := s.Scratch(ir.TypesOf(n.In()), ir.TypesOf(n.Out())); bytes > 0 {
			p.scratch[i] = &place{home: homeArena, bytes: bytes, first: i, last: i}
		}
	}
	var over []int
	if ip, ok := n.Op().(op.InPlacer); ok {
		over = ip.InPlace()
	}
	var taken []*place // by earlier results of this node
	for r, v := range n.Out() {
		id := v.ID()
		if r < len(over) && over[r] >= 0 && p.overwrite(i, n, n.In()[over[r]], v, taken) {
			taken = append(taken, p.places[id])
			continue
		}
		p.places[id] = &place{home: homeArena, bytes: v.Type().Bytes(), first: i, last: max(p.lastUse[id], i),
			owned: true}
	}
}

// overwrite lets result v of node i overwrite operand x, if x is not needed afterwards.
func (p *planner) overwrite(i int, n *ir.Node, x, v *ir.Value, taken []*place) bool {
	at := p.places[x.ID()]
	if slices.Contains(taken, at) {
		return false
	}
	for _, other := range n.In() {
		if other != x && p.places[other.ID()] == at {
			return false // the same memory is read in another order
		}
	}
	if !readsOnce(n, x, v) {
		return false
	}
	if !at.owned || at.last > i || !x.Type().Equal(v.Type()) {
		return false
	}
	if at.home == homeParam && !p.mayHold(at.index, n, p.lastUse[v.ID()] == len(p.f.Nodes())) {
		return false
	}
	at.last = max(p.lastUse[v.ID()], i)
	p.places[v.ID()] = at
	return true
}

// mayHold reports whether a node's result may be stored in the memory of a parameter: donated memory is for
// results and for sums of devices there, spent memory for everything else.
func (p *planner) mayHold(param int, n *ir.Node, result bool) bool {
	if !p.donated[param] {
		return !result
	}
	_, exchanged := n.Op().(op.Collective)
	return result || exchanged
}

// readsOnce reports whether all reads of an element of x by a node are done when the same element of v is
// written: x is one operand only, or the op is elementwise.
func readsOnce(n *ir.Node, x, v *ir.Value) bool {
	var in []ir.Type
	var shapes, results [][]int
	times := 0
	for _, y := range n.In() {
		if in, shapes = append(in, y.Type()), append(shapes, y.Shape()); y == x {
			times++
		}
	}
	if times < 2 {
		return true
	}
	for _, y := range n.Out() {
		results = append(results, y.Shape())
	}
	rule, err := n.Op().(op.Op).Rule(in).Bind(shapes, results)
	if err != nil || slices.ContainsFunc(rule.Factors, func(f mesh.Factor) bool { return f.Whole }) {
		return false
	}
	to := rule.Tensor(len(in) + v.Index())
	for i, y := range n.In() {
		if y == x && !slices.EqualFunc(rule.Tensor(i), to, slices.Equal[[]byte]) {
			return false
		}
	}
	return true
}

// results assigns each result memory of its own that outlives the run, except for offloaded ones.
func (p *planner) results() {
	p.resultOf = make([]*place, len(p.f.Results()))
	for i, v := range p.f.Results() {
		at := p.places[v.ID()]
		p.resultOf[i] = at
		switch {
		case p.transfers.results[i]:
		case at.home == homeArena:
			at.home, at.index = homeResult, i
		case at.home == homeParam && p.donated[at.index] && p.taken[at.index] < 0:
			p.taken[at.index] = i
		}
	}
}

// pack assigns arena offsets: the largest places first, each at the lowest offset that is free during its
// lifetime. [Pisarchyk and Lee 2020, greedy by size]
func (p *planner) pack() error {
	var todo []*place
	seen := map[*place]bool{}
	for _, at := range slices.Concat(p.places, p.scratch) {
		if at != nil && at.home == homeArena && !seen[at] {
			seen[at] = true
			todo = append(todo, at)
		}
	}
	slices.SortStableFunc(todo, func(a, b *place) int { return b.bytes - a.bytes })
	var laid []*place // by offset
	spent := p.spentBlocks()
	for _, at := range todo {
		if spent.put(at) {
			continue
		}
		at.offset = gap(laid, at)
		p.arena = max(p.arena, at.offset+aligned(at.bytes))
		if p.arena >= array.MaxBytes {
			return fmt.Errorf("values that live at once: got %d bytes, want fewer than %d", p.arena, array.MaxBytes)
		}
		laid = lay(laid, at)
	}
	return nil
}

// lay inserts a place into those sorted by offset.
func lay(laid []*place, at *place) []*place {
	i, _ := slices.BinarySearchFunc(laid, at, func(a, b *place) int { return a.offset - b.offset })
	return slices.Insert(laid, i, at)
}

// gap returns the lowest offset at which at fits among the places with overlapping lifetimes.
func gap(laid []*place, at *place) int {
	offset := 0
	for _, l := range laid {
		if l.last < at.first || at.last < l.first {
			continue
		}
		if offset+aligned(at.bytes) <= l.offset {
			break
		}
		offset = max(offset, l.offset+aligned(l.bytes))
	}
	return offset
}

func aligned(n int) int { return (n + array.Alignment - 1) &^ (array.Alignment - 1) }
