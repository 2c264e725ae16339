package spmd

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Unreduced returns the layouts in which values that are summed later can be left before devices communicate:
// each as in specs, but unreduced along the axes along which it is partial where it is computed, unless its
// spec splits by them. Such values may be computed from others by linear ops, such as a cast or a slice of a
// product's gradient; inner holds the layouts that those need, by ID, to stay unreduced on the way.
func (p *Program) Unreduced(values []*ir.Value, specs []mesh.Spec) (layout []mesh.Spec,
	inner map[int]mesh.Spec) {
	u := &uncombiner{p: p, how: map[*ir.Node]*decision{}, base: make([]mesh.Spec, p.f.NumValues()),
		only: make([]bool, p.f.NumValues()), inner: map[int]mesh.Spec{}}
	for _, s := range p.steps {
		u.how[s.node] = s.how
	}
	for id, at := range p.layouts {
		u.base[id] = at.Spec.With()
	}
	for i, v := range values {
		u.base[v.ID()], u.only[v.ID()] = specs[i].With(), true
	}
	u.follow()
	for _, v := range values {
		u.mark(v, u.pending(v))
	}
	for i, v := range values {
		pending := slices.DeleteFunc(slices.Clone(u.inner[v.ID()].Partial),
			func(q mesh.Pending) bool { return p.layouts[v.ID()].Mesh.Overlap(q.Sub, specs[i].Used()) })
		layout = append(layout, specs[i].With(pending...))
	}
	return layout, u.inner
}

// uncombiner walks from sums back to where they are partial.
type uncombiner struct {
	p   *Program
	how map[*ir.Node]*decision
	// base is the layout of values without partial axes; only is whether a value is used only for the requested
	// ones.
	base  []mesh.Spec
	only  []bool
	inner map[int]mesh.Spec
}

// follow finds the values that are used for nothing else, through linear ops.
func (u *uncombiner) follow() {
	uses, returned := usesOf(u.p.f)
	for _, n := range slices.Backward(u.p.f.Nodes()) {
		for _, v := range n.Out() {
			u.only[v.ID()] = u.only[v.ID()] || !returned[v.ID()] &&
				!slices.ContainsFunc(uses[v.ID()], func(x use) bool {
					return !linearIn(x.node) || slices.ContainsFunc(x.node.Out(),
						func(y *ir.Value) bool { return !u.only[y.ID()] })
				})
		}
	}
}

// linearIn reports whether a node is linear in all of its operands together.
func linearIn(n *ir.Node) bool {
	if _, ok := n.Op().(op.Constrainer); ok {
		return false
	}
	l, ok := n.Op().(op.Multilinear)
	if !ok || len(l.Linear()) != 1 {
		return false
	}
	group := l.Linear()[0]
	return (len(group) == 0 || len(group) == len(n.In())) &&
		!slices.ContainsFunc(append(slices.Clone(n.In()), n.Out()...),
			func(v *ir.Value) bool { return !v.DType().IsFloat() })
}

// pending returns the partial axes that v can have before anything is communicated.
func (u *uncombiner) pending(v *ir.Value) []mesh.Pending {
	how := u.how[v.Node()]
	if how == nil || how.mesh != u.p.layouts[v.ID()].Mesh { // what moves is reduced first
		return nil
	}
	list := slices.Clone(how.give[v.Index()].Partial)
	for _, q := range u.passing(v.Node()) {
		if !slices.ContainsFunc(list, func(r mesh.Pending) bool {
			return how.mesh.Overlap(r.Sub,
				mesh.Axes{q.Sub})
		}) {
			list = append(list, q)
		}
	}
	used := u.base[v.ID()].Used()
	return slices.DeleteFunc(list,
		func(q mesh.Pending) bool { return q.Reduce != mesh.Sum || how.mesh.Overlap(q.Sub, used) })
}

// passing returns the partial axes that all operands of a node can have, if the node is linear in them and
// their only user.
func (u *uncombiner) passing(n *ir.Node) []mesh.Pending {
	at := u.p.layouts[n.Out()[0].ID()].Mesh
	if !linearIn(n) || slices.ContainsFunc(n.In(), func(v *ir.Value) bool {
		return !u.only[v.ID()] || u.p.layouts[v.ID()].Mesh != at // what moves is reduced first
	}) {
		return nil
	}
	all := u.pending(n.In()[0])
	for _, v := range n.In()[1:] {
		own := u.pending(v)
		all = slices.DeleteFunc(all, func(q mesh.Pending) bool { return !slices.Contains(own, q) })
	}
	return all
}

// mark leaves v, and what it is computed from, unreduced.
func (u *uncombiner) mark(v *ir.Value, list []mesh.Pending) {
	u.inner[v.ID()] = u.base[v.ID()].With(list...)
	if v.Node() == nil {
		return
	}
	passing := u.passing(v.Node())
	through := slices.DeleteFunc(slices.Clone(list),
		func(q mesh.Pending) bool { return !slices.Contains(passing, q) })
	for _, x := range v.Node().In() {
		if len(through) > 0 {
			u.mark(x, through)
		}
	}
}
