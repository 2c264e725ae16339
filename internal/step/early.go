package step

import (
	"slices"

	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// accumulateEarly makes a device's program add a gradient to its accumulator as soon as it is computed, not
// after the whole backward pass: a result has its own memory, and its operands need not be kept in the arena.
// Nodes that only one result uses move with it, except for collectives, whose order is the same on all
// devices.
func accumulateEarly(f *ir.Func) (*ir.Func, error) {
	defer fault.Pass("early sums", f)
	e := newEnds(f)
	ready := make([][]int, len(f.Nodes())+1) // by the last node that an end reads, the ends
	for i, n := range f.Nodes() {
		if e.of[i] == i && len(n.In()) > 0 {
			ready[e.reads(i)+1] = append(ready[e.reads(i)+1], i)
		}
	}
	order := e.emit(nil, ready[0])
	for i := range f.Nodes() {
		if e.of[i] < 0 {
			order = append(order, i)
		}
		order = e.emit(order, ready[i+1])
	}
	if slices.IsSorted(order) {
		return f, nil
	}
	return f.Reordered(order)
}

// ends describes the nodes that only lead to results.
type ends struct {
	f *ir.Func
	// made is the node of a value, -1 for a parameter.
	made []int
	// of is the node of the result that a node is for, -1 if it has other uses.
	of []int
	// members holds the nodes that belong to an end, the last first.
	members map[int][]int
	// readers holds the nodes that read a value.
	readers [][]int
}

func newEnds(f *ir.Func) *ends {
	e := &ends{f: f, made: slices.Repeat([]int{-1}, f.NumValues()), of: slices.Repeat([]int{-1}, len(f.Nodes())),
		members: map[int][]int{}, readers: make([][]int, f.NumValues())}
	for i, n := range f.Nodes() {
		for _, v := range n.Out() {
			e.made[v.ID()] = i
		}
		for _, v := range n.In() {
			e.readers[v.ID()] = append(e.readers[v.ID()], i)
		}
	}
	results := make([]bool, f.NumValues())
	for _, v := range f.Results() {
		results[v.ID()] = true
	}
	for i := len(f.Nodes()) - 1; i >= 0; i-- {
		e.of[i] = e.end(i, results)
		if e.of[i] >= 0 {
			e.members[e.of[i]] = append(e.members[e.of[i]], i)
		}
	}
	return e
}

// end returns the end that a node belongs to, itself if it makes a result that no node reads.
func (e *ends) end(i int, results []bool) int {
	n := e.f.Nodes()[i]
	if _, ok := n.Op().(op.Collective); ok || len(n.Out()) != 1 || len(n.In()) == 0 {
		return -1
	}
	id := n.Out()[0].ID()
	switch by := e.readers[id]; {
	case results[id] && len(by) == 0:
		return i
	case !results[id] && len(by) == 1:
		return e.of[by[0]]
	}
	return -1
}

// reads returns the last node that must come before an end: what its members read, and where that is a
// parameter, which its result may overwrite, those before it that read it, too. -1 is none.
func (e *ends) reads(end int) int {
	last := -1
	for _, i := range e.members[end] {
		for _, v := range e.f.Nodes()[i].In() {
			before := []int{e.made[v.ID()]}
			if before[0] < 0 {
				before = e.readers[v.ID()]
			}
			for _, at := range before {
				if e.of[at] != end && at < end {
					last = max(last, at)
				}
			}
		}
	}
	return last
}

// emit puts the members of ends in order.
func (e *ends) emit(order, list []int) []int {
	for _, end := range list {
		order = append(order, slices.Sorted(slices.Values(e.members[end]))...)
	}
	return order
}
