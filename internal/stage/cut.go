package stage

import (
	"slices"

	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
)

// Part is a piece of a program. Params and Results are values of that program by ID: what goes in and what
// comes out.
type Part struct {
	Func            *ir.Func
	Params, Results []int
	// Values is, for each value of Func, the value of the whole program that it is.
	Values []int
}

// Keep says of a node that the first part runs whether its results are handed to the second, should it need
// them; otherwise they are computed again.
type Keep func(n *ir.Node) bool

// Cut parts a program in two. The first part computes the results numbered in first, and nothing that they do
// not need; the second computes the other results. Each part has the parameters that it uses.
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
	// The second part is built first: it says what it needs of the first.
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

// reach returns the values that some are computed from, themselves included; it does not look behind those
// where it stops.
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

// build copies what results need. Nodes that are elsewhere, too, are copied just before they are first used,
// so that what is computed again lives no longer than it must; all others keep their order.
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
	// env is the part's own values by the program's IDs.
	env    []*ir.Value
	params []int
}

// value returns v in the part, computed now if need be.
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
