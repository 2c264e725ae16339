package pass

import (
	"container/heap"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// build returns the program with a fused op for each loop.
func (g *Grouping) build() (*ir.Func, error) {
	if !slices.ContainsFunc(g.unit, func(u *unit) bool { return u.plan != nil }) {
		return g.f, nil
	}
	b := ir.NewBuilder(g.f.Name())
	w := &groupWriter{g: g, b: b, env: make([]*ir.Value, g.f.NumValues())}
	for i, p := range b.ParamsOf(g.f) {
		w.env[g.f.Params()[i].ID()] = p
	}
	w.escaping()
	for _, u := range g.order() {
		if u.plan == nil {
			if !g.free(u.nodes[0]) { // constants are emitted where they are read
				w.node(u.nodes[0])
			}
		} else if err := w.loop(u); err != nil {
			return nil, err
		}
	}
	results := make([]*ir.Value, len(g.f.Results()))
	for i, v := range g.f.Results() {
		results[i] = w.value(v)
	}
	// Unused nodes are kept: other devices may wait for them.
	return b.Build(results...)
}

// groupWriter emits units into a new program.
type groupWriter struct {
	g   *Grouping
	b   *ir.Builder
	env []*ir.Value
	// out holds the values of each loop that others read.
	out map[*unit][]*ir.Value
}

// same returns the operand of a reshape within a unit; nil if v is not one.
func (g *Grouping) same(v *ir.Value) *ir.Value {
	if v.Node() == nil {
		return nil
	}
	i := g.at[v.Node()]
	if g.loops[i] == nil || g.loops[i].Kind() != op.LoopSame || g.unit[i].plan == nil {
		return nil
	}
	return v.Node().In()[0]
}

// escaping finds the values that are used outside their loops. A reshape is repeated outside.
func (w *groupWriter) escaping() {
	w.out = map[*unit][]*ir.Value{}
	g := w.g
	for i, n := range g.nodes {
		for _, v := range n.In() {
			if g.unit[i].plan == nil || !g.inside(g.unit[i], v) {
				w.export(v)
			}
		}
	}
	for _, u := range g.unit { // recomputed nodes read values as well
		for _, i := range u.again {
			for _, v := range g.nodes[i].In() {
				if !g.inside(u, v) {
					w.export(v)
				}
			}
		}
	}
	for _, v := range g.f.Results() {
		w.export(v)
	}
}

// inside reports whether a unit computes v itself.
func (g *Grouping) inside(u *unit, v *ir.Value) bool {
	if v.Node() == nil {
		return false
	}
	i := g.at[v.Node()]
	return g.free(i) || g.unit[i] == u || slices.Contains(u.again, i)
}

// export makes v's loop return it.
func (w *groupWriter) export(v *ir.Value) {
	for x := w.g.same(v); x != nil; x = w.g.same(v) {
		v = x
	}
	if v.Node() == nil {
		return
	}
	u := w.g.unit[w.g.at[v.Node()]]
	if u.plan != nil && !slices.Contains(w.out[u], v) {
		w.out[u] = append(w.out[u], v)
	}
}

// value returns v in the new program.
func (w *groupWriter) value(v *ir.Value) *ir.Value {
	if x := w.env[v.ID()]; x != nil {
		return x
	}
	n := v.Node()
	defer w.b.At(n.Pos())()
	in := make([]*ir.Value, len(n.In()))
	for i, x := range n.In() {
		in[i] = w.value(x)
	}
	w.env[v.ID()] = w.b.Apply(n.Op(), in)[0] // a reshape or a constant
	return w.env[v.ID()]
}

func (w *groupWriter) node(i int) {
	n := w.g.nodes[i]
	in := make([]*ir.Value, len(n.In()))
	for k, x := range n.In() {
		in[k] = w.value(x)
	}
	defer w.b.At(n.Pos())()
	for k, v := range w.b.Apply(n.Op(), in) {
		w.env[n.Out()[k].ID()] = v
	}
}

// loop emits a unit as one op.
func (w *groupWriter) loop(u *unit) error {
	out := w.out[u]
	if len(out) == 0 {
		return nil
	}
	body, in, err := w.g.body(u, out)
	if err != nil {
		return err
	}
	args := make([]*ir.Value, len(in))
	for i, v := range in {
		args[i] = w.value(v)
	}
	defer w.b.At(w.g.nodes[u.nodes[0]].Pos())()
	for i, v := range w.b.Apply(op.Fused(body), args) {
		w.env[out[i].ID()] = v
	}
	return nil
}

// body returns a unit as a program of its own, and the values that it reads.
func (g *Grouping) body(u *unit, out []*ir.Value) (*ir.Func, []*ir.Value, error) {
	nodes := g.members(u)
	b := ir.NewBuilder("body")
	env := map[*ir.Value]*ir.Value{}
	made := map[*ir.Value]bool{}
	for _, i := range nodes {
		made[g.nodes[i].Out()[0]] = true
	}
	var in []*ir.Value
	for _, i := range nodes {
		for _, v := range g.nodes[i].In() {
			if !made[v] && env[v] == nil {
				env[v] = b.Param("", v.Type())
				in = append(in, v)
			}
		}
	}
	for _, i := range nodes {
		n := g.nodes[i]
		args := make([]*ir.Value, len(n.In()))
		for k, v := range n.In() {
			args[k] = env[v]
		}
		restore := b.At(n.Pos())
		env[n.Out()[0]] = b.Apply(n.Op(), args)[0]
		restore()
	}
	results := make([]*ir.Value, len(out))
	for i, v := range out {
		results[i] = env[v]
	}
	f, err := b.Build(results...)
	if err != nil {
		return nil, nil, err
	}
	f, err = Prune(f)
	return f, in, err
}

// members returns all nodes of a unit's body in order: its own, those that it recomputes, and constants.
func (g *Grouping) members(u *unit) []int {
	all := slices.Concat(u.nodes, u.again)
	for _, i := range slices.Clone(all) {
		for _, v := range g.nodes[i].In() {
			if v.Node() != nil && g.free(g.at[v.Node()]) {
				all = append(all, g.at[v.Node()])
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// order returns the units in an order as close to the program's own as their operands allow.
func (g *Grouping) order() []*unit {
	waits := map[*unit]int{}
	next := map[*unit][]*unit{}
	var units []*unit
	for i := range g.nodes {
		if u := g.unit[i]; u.nodes[0] == i {
			units = append(units, u)
		}
	}
	for _, u := range units {
		before := map[*unit]bool{}
		for _, i := range slices.Concat(u.nodes, u.again) {
			for _, v := range g.nodes[i].In() {
				if v.Node() == nil || g.inside(u, v) {
					continue
				}
				if p := g.unit[g.at[v.Node()]]; !before[p] {
					before[p] = true
					next[p] = append(next[p], u)
					waits[u]++
				}
			}
		}
	}
	for _, pair := range g.after {
		p, u := g.unit[pair[0]], g.unit[pair[1]]
		next[p] = append(next[p], u)
		waits[u]++
	}
	var ready unitHeap
	for _, u := range units {
		if waits[u] == 0 {
			heap.Push(&ready, u)
		}
	}
	var list []*unit
	for len(ready) > 0 {
		u := heap.Pop(&ready).(*unit)
		list = append(list, u)
		for _, v := range next[u] {
			if waits[v]--; waits[v] == 0 {
				heap.Push(&ready, v)
			}
		}
	}
	if len(list) != len(units) {
		panic(fmt.Sprintf("pass: loops of %s need each other's results", g.f.Name()))
	}
	return list
}

// unitHeap is a heap with the unit whose last node is the earliest at its top.
type unitHeap []*unit

func (h unitHeap) Len() int           { return len(h) }
func (h unitHeap) Less(i, j int) bool { return last(h[i]) < last(h[j]) }
func (h unitHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *unitHeap) Push(x any)        { *h = append(*h, x.(*unit)) }

func (h *unitHeap) Pop() any {
	old := *h
	u := old[len(old)-1]
	*h = old[:len(old)-1]
	return u
}

func last(u *unit) int { return u.nodes[len(u.nodes)-1] }
