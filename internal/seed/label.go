package seed

import (
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// label is one way to run an op: the layout operands must have, the layout results then have, and what it
// computes.
type label struct {
	need, give []mesh.Spec
	time       float64
}

// labeler lists the ways to run ops on one mesh.
type labeler struct {
	mesh   *mesh.Mesh
	axes   mesh.Axes // those of more than one position, or parts of them
	prices spmd.Prices
}

// place is what one axis does to an op: it splits a factor, or it is that along which a group of operands is
// partial.
type place struct {
	factor int // -1 for none
	group  []int
}

// op returns the ways to run a node: each axis splits one factor, carries sums through, or does nothing.
func (l *labeler) op(n *ir.Node) ([]label, error) {
	o := n.Op().(op.Op)
	in, out := ir.TypesOf(n.In()), ir.TypesOf(n.Out())
	rule, err := o.Rule(in).Bind(shapes(in), shapes(out))
	if err != nil {
		return nil, &ir.Error{Pos: n.Pos(), Op: o.Name(), Err: err}
	}
	options := make([][]place, len(l.axes))
	for i, a := range l.axes {
		options[i] = l.places(l.mesh.Extent(a), o, rule, in, out)
	}
	var labels []label
	at := map[string]int{}
	each(options, func(choice []place) {
		x, ok := l.run(o, rule, choice, in, out)
		if !ok {
			return
		}
		key := specsText(x.need) + "→" + specsText(x.give)
		if i, known := at[key]; known {
			labels[i].time = min(labels[i].time, x.time)
			return
		}
		at[key] = len(labels)
		labels = append(labels, x)
	})
	return labels, nil
}

// places returns what an axis of a size may do to an op.
func (l *labeler) places(size int, o op.Op, rule *mesh.Parsed, in, out []ir.Type) []place {
	list := []place{{factor: -1}}
	for f, x := range rule.Factors {
		if !x.Whole && x.Size >= size {
			list = append(list, place{factor: f})
		}
	}
	for _, g := range linear(o, in, out) {
		list = append(list, place{-1, g})
	}
	return list
}

// linear returns the groups of operands that may be partial together.
func linear(o op.Op, in, out []ir.Type) [][]int {
	m, ok := o.(op.Multilinear)
	if !ok || slices.ContainsFunc(out, notFloat) {
		return nil
	}
	var groups [][]int
	for _, g := range m.Linear() {
		if len(g) == 0 {
			g = make([]int, len(in))
			for i := range g {
				g[i] = i
			}
		}
		if !slices.ContainsFunc(g, func(i int) bool { return notFloat(in[i]) }) {
			groups = append(groups, g)
		}
	}
	return groups
}

func notFloat(t ir.Type) bool { return !t.DType.IsFloat() }

// run returns the op under one choice for every axis, and whether that is legal.
func (l *labeler) run(o op.Op, rule *mesh.Parsed, choice []place, in, out []ir.Type) (label, bool) {
	assign := make(mesh.Assignment, len(rule.Factors))
	for i, c := range choice {
		if c.factor >= 0 {
			assign[c.factor] = append(assign[c.factor], l.axes[i])
		}
	}
	if len(rule.Check(l.mesh, assign)) > 0 {
		return label{}, false
	}
	need, give, err := rule.Specs(l.mesh, assign)
	if err != nil {
		return label{}, false
	}
	for i, c := range choice {
		q := mesh.Pending{Sub: l.axes[i]}
		for _, j := range c.group {
			need[j] = need[j].With(append(slices.Clone(need[j].Partial), q)...)
		}
		if c.group != nil {
			for j := range give {
				give[j] = give[j].With(append(slices.Clone(give[j].Partial), q)...)
			}
		}
	}
	time, ok := l.computing(o, rule, assign, in, out)
	return label{need, give, time}, ok
}

// computing returns the time of the op on the first device, which has the largest parts.
func (l *labeler) computing(o op.Op, rule *mesh.Parsed, assign mesh.Assignment, in, out []ir.Type) (float64,
	bool) {
	at, err := op.NewPlace(rule, l.mesh, assign, l.mesh.Devices()[0], in, out)
	if err != nil {
		return 0, false
	}
	local, err := op.Localize(o, at)
	if err != nil {
		return 0, false
	}
	return l.prices.Seconds(local, at.LocalIn, at.LocalOut), true
}

// param returns the ways in which a value that nothing computes may be: those that an annotation allows,
// which is taken as it is and extended only where it leaves dims open.
func (l *labeler) param(t ir.Type, given mesh.Sharding) []mesh.Spec {
	axes := l.mesh.Free(append(given.Spec.Used(), given.Replicated...))
	if len(given.Spec.Used()) == 0 && len(given.Replicated) == 0 {
		axes = l.axes
	}
	options := make([][]int, len(axes))
	for i, a := range axes {
		options[i] = []int{-1}
		for d, n := range t.Shape {
			if given.Freedom[d].Open && n >= l.mesh.Extent(a) {
				options[i] = append(options[i], d)
			}
		}
	}
	var specs []mesh.Spec
	each(options, func(choice []int) {
		s := given.Spec.Clone()
		for i, d := range choice {
			if d >= 0 {
				s.Dims[d] = append(s.Dims[d], axes[i])
			}
		}
		specs = append(specs, s.Simplify(l.mesh, t.Shape))
	})
	return specs
}

// each calls f with every way to take one of each list; the slice is reused.
func each[T any](options [][]T, f func(choice []T)) {
	choice := make([]T, len(options))
	var next func(i int)
	next = func(i int) {
		if i == len(options) {
			f(choice)
			return
		}
		for _, o := range options[i] {
			choice[i] = o
			next(i + 1)
		}
	}
	next(0)
}

func shapes(ts []ir.Type) [][]int {
	list := make([][]int, len(ts))
	for i, t := range ts {
		list[i] = t.Shape
	}
	return list
}

func specsText(list []mesh.Spec) string {
	var b strings.Builder
	for _, s := range list {
		b.WriteString(s.String())
	}
	return b.String()
}
