package step

import (
	"slices"

	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// gatherLate makes a device's program gather the weights that ZeRO shards when they are first used, not all
// at the start, so that only those of a layer or two are whole in memory at a time. Nodes that change the
// layout of parameters, without computing, move; if there is no collective among them, the program is
// unchanged.
func gatherLate(f *ir.Func) (*ir.Func, error) {
	defer fault.Pass("late gathers", f)
	l := &reorder{f: f, made: make([]int, f.NumValues()), waits: make([]bool, len(f.Nodes())),
		done: make([]bool, len(f.Nodes()))}
	if !l.find() {
		return f, nil
	}
	for i := range f.Nodes() {
		if !l.waits[i] {
			l.emit(i)
		}
	}
	for i := range f.Nodes() { // what only results read
		l.emit(i)
	}
	return f.Reordered(l.order)
}

// reorder is a program whose nodes are being reordered.
type reorder struct {
	f     *ir.Func
	made  []int  // by value, the node; -1 for a parameter
	waits []bool // by node: it changes a layout of parameters, and is delayed until another node reads it
	done  []bool
	order []int
}

// find marks the nodes that can be delayed, and reports whether gathers are among them: all devices of a mesh
// have these in the same order. Other communication stays in place, with everything that it needs.
func (l *reorder) find() (gathers bool) {
	for _, v := range l.f.Params() {
		l.made[v.ID()] = -1
	}
	for i, n := range l.f.Nodes() {
		for _, v := range n.Out() {
			l.made[v.ID()] = i
		}
		l.waits[i] = len(n.In()) > 0 && moves(n) && !slices.ContainsFunc(n.In(), func(v *ir.Value) bool {
			at := l.made[v.ID()]
			return at >= 0 && !l.waits[at]
		})
		if _, ok := n.Op().(op.Collective); ok && l.waits[i] {
			if _, ok := n.Op().(op.Hierarchic); !ok {
				return false
			}
			gathers = true
		}
	}
	return gathers
}

// moves reports whether a node is a collective, or computes nothing. Nodes of empty shards are treated as if
// they had elements, because collectives have the same order on all devices.
func moves(n *ir.Node) bool {
	if _, ok := n.Op().(op.Collective); ok {
		return true
	}
	o, ok := n.Op().(op.Op)
	return ok && o.Work(filled(n.In()), filled(n.Out())).Flops == 0
}

// filled returns the types of values, with one element if there is none.
func filled(list []*ir.Value) []ir.Type {
	types := typesOfValues(list)
	for i, t := range types {
		types[i].Shape = slices.Clone(t.Shape)
		for d, n := range t.Shape {
			types[i].Shape[d] = max(1, n)
		}
	}
	return types
}

// emit puts a node after those that it reads.
func (l *reorder) emit(i int) {
	if l.done[i] {
		return
	}
	l.done[i] = true
	for _, v := range l.f.Nodes()[i].In() {
		if at := l.made[v.ID()]; at >= 0 {
			l.emit(at)
		}
	}
	l.order = append(l.order, i)
}
