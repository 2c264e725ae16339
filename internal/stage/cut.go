package stage

import (
	"slices"

	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
)

// Part is a piece of a program. Params and Results are values of that program by ID: its inputs and outputs.
type Part struct {
	Func            *ir.Func
	Params, Results []int
	// Values maps each value of Func to that of the whole program.
	Values []int
}

// Keep reports whether the results of a node that the first part runs are passed to the second one if it
// needs them; otherwise they are recomputed.
type Keep func(n *ir.Node) bool

// Cut splits a program in two. The first part computes the results numbered in first, and only what they
// need; the second computes the other results. Each part has the parameters that it uses.
func Cut(f *ir.Func, names [2]string, first []int, keep Keep) (a, b *Part, err error) {
	defer fault.Pass("cut", f)
	early := make([]bool, len(f.Results()))
	for _, i := range first {
		early[i] = true
	}
	var one, two []*ir.Value
	for i, v := range f.Results() {
		if early[i] {
			one = append(one, v)
		} else {
			two = append(two, v)
		}
	}
	inFirst := reach(f, one, func(*ir.Value) bool { return false })
	handed := func(v *ir.Value) bool { return v.Node() != nil && inFirst[v.ID()] && keep(v.Node()) }
	// The second part is built first, because it determines what it needs from the first.
	if b, err = build(f, names[1], two, handed, inFirst); err != nil {
		return nil, nil, err
	}
	nobody := make([]bool, f.NumValues())
	all := valuesOf(f)
	for _, id := range b.Params {
		if v := all[id]; v.Node() != nil && !slices.Contains(one, v) {
			one = append(one, v)
		}
	}
	a, err = build(f, names[0], one, func(*ir.Value) bool { return false }, nobody)
	return a, b, err
}

// valuesOf returns a program's values by ID.
func valuesOf(f *ir.Func) []*ir.Value {
	all := append([]*ir.Value(nil), f.Params()...)
	for _, n := range f.Nodes() {
		all = append(all, n.Out()...)
	}
	return all
}

// reach returns the values that some values depend on, themselves included; it does not go beyond those where
// stop is true.
func reach(f *ir.Func, from []*ir.Value, stop func(*ir.Value) bool) []bool {
	seen := make([]bool, f.NumValues())
	for todo := append([]*ir.Value(nil), from...); len(todo) > 0; {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[v.ID()] || stop(v) {
			continue
		}
		seen[v.ID()] = true
		if n := v.Node(); n != nil {
			for _, o := range n.Out() {
				seen[o.ID()] = true
			}
			todo = append(todo, n.In()...)
		}
	}
	return seen
}

// build copies the nodes that results need. Nodes that are recomputed are copied just before their first use,
// so that their results live as briefly as possible; all others keep their order.
func build(f *ir.Func, name string, results []*ir.Value, handed func(*ir.Value) bool,
	elsewhere []bool) (*Part, error) {
	p := &partBuilder{b: ir.NewBuilder(name), handed: handed, env: make([]*ir.Value, f.NumValues())}
	needed := reach(f, results, handed)
	for _, n := range f.Nodes() {
		if id := n.Out()[0].ID(); needed[id] && !elsewhere[id] {
			p.emit(n)
		}
	}
	part := &Part{}
	var own []*ir.Value
	for _, v := range results {
		own = append(own, p.value(v))
		part.Results = append(part.Results, v.ID())
	}
	g, err := p.b.Build(own...)
	if err != nil {
		return nil, err
	}
	part.Func, part.Params, part.Values = g, p.params, make([]int, g.NumValues())
	for id, own := range p.env {
		if own != nil {
			part.Values[own.ID()] = id
		}
	}
	return part, ir.Check(g)
}

// partBuilder copies nodes of a program into a part of it.
type partBuilder struct {
	b      *ir.Builder
	handed func(*ir.Value) bool
	// env maps the program's IDs to the part's own values.
	env    []*ir.Value
	params []int
}

// value returns v in the part, computing it now if necessary.
func (p *partBuilder) value(v *ir.Value) *ir.Value {
	if p.env[v.ID()] == nil {
		if v.Node() != nil && !p.handed(v) {
			p.emit(v.Node())
		} else {
			p.env[v.ID()] = p.b.Param(v.Name(), v.Type())
			p.params = append(p.params, v.ID())
		}
	}
	return p.env[v.ID()]
}

func (p *partBuilder) emit(n *ir.Node) {
	if p.env[n.Out()[0].ID()] != nil {
		return
	}
	in := make([]*ir.Value, len(n.In()))
	for i, v := range n.In() {
		in[i] = p.value(v)
	}
	defer p.b.At(n.Pos())()
	for i, own := range p.b.Apply(n.Op(), in) {
		p.env[n.Out()[i].ID()] = own
	}
}
