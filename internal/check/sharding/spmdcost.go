package sharding

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// better compares our answer with the recorded one by the bytes that each moves: to reshard operands, to
// reshard between the ops of the program, and to reduce unreduced results. Ours is better if it moves fewer;
// if it moves as many, and its shards need less memory on a device or only other values are unreduced; or if
// it moves fewer until the results have the recorded layout. In backward inference what is moved is the
// difference between the inferred results and the requested ones.
//
// Our step is legal by construction. The recorded answer is assumed to be.
func (c *spmdCase) better(m *mesh.Mesh, f *flow, b *spmdBuild, results []*op.Tensor) (string, bool) {
	ours, theirs := &bill{m: m}, &bill{m: m}
	pending := c.pendingOf(m, b, results)
	side := func(vs []*op.Tensor, want []*spmdTensor, isGiven bool) {
		for i, v := range vs {
			if v == nil || v.Node() == nil && !f.reads(v) {
				continue
			}
			t := transition{v.Type(), f.given[v], f.specs[v], recorded(m, want, i, f.specs[v])}
			for _, p := range pending[v] {
				if !m.Overlap(p.Sub, t.theirs.Used()) {
					t.theirs = t.theirs.With(append(slices.Clone(t.theirs.Partial), p)...)
				}
			}
			t.enter(ours, theirs, isGiven)
		}
	}
	backward := c.Direction == "backward"
	side(b.params, c.recordedIn(m, b, results), !backward)
	side(results, c.WantOut, backward)
	for _, x := range f.inner {
		ours.move(x.value.Type(), x.have, x.want)
	}
	if err := firstError(ours.err, theirs.err); err != nil {
		return "no comparison of costs: " + err.Error(), false
	}
	if backward { // unreduced operands are optional: reduced ones are valid as well
		ours.due, theirs.due = 0, 0
	}
	text := fmt.Sprintf("moves %.0f bytes and holds %.0f, the recorded answer %.0f and %.0f",
		ours.moved+ours.due, ours.held, theirs.moved+theirs.due, theirs.held)
	const slack = 1 + 1e-6
	switch a, b := ours.moved+ours.due, theirs.moved+theirs.due; {
	case a*slack < b, a <= b*slack && ours.held*slack < theirs.held, a <= b*slack && !ours.otherDims:
		return text, true
	}
	return text, !backward && (ours.moved+ours.there)*slack < theirs.moved+theirs.there
}

// pendingOf returns, for each result whose unreduced axes a case does not state, the axes that the recorded
// operands leave unreduced: an answer that splits a sum further has to pay for it. It is nil if operands are
// not stated.
func (c *spmdCase) pendingOf(m *mesh.Mesh, b *spmdBuild, results []*op.Tensor) map[*op.Tensor][]mesh.Pending {
	stated := len(c.WantIn) == len(c.Inputs) && !slices.ContainsFunc(c.WantIn, (*spmdTensor).absent)
	if c.Direction != "forward" || !stated {
		return nil
	}
	f := newFlow(m, results)
	given := &spmdCase{Inputs: c.WantIn, Direction: c.Direction}
	from := &spmdBuild{spmdCase: given, builder: b.builder, params: b.params}
	if f.forward(from, results) != nil {
		return nil
	}
	pending := map[*op.Tensor][]mesh.Pending{}
	for i, t := range c.WantOut {
		if t != nil && t.Partial == nil && i < len(results) && results[i] != nil {
			pending[results[i]] = f.specs[results[i]].Partial
		}
	}
	return pending
}

// recordedIn returns the recorded operands or, if a case states only results, what our own rule requires for
// these.
func (c *spmdCase) recordedIn(m *mesh.Mesh, b *spmdBuild, results []*op.Tensor) []*spmdTensor {
	if c.WantIn != nil || slices.ContainsFunc(c.WantOut,
		func(t *spmdTensor) bool { return t != nil && len(t.Partial) > 0 }) {
		return c.WantIn
	}
	f := newFlow(m, results)
	back := &spmdBuild{spmdCase: &spmdCase{Outputs: c.WantOut}, builder: b.builder, params: b.params}
	if f.backward(back, results) != nil {
		return nil
	}
	list := make([]*spmdTensor, len(b.params))
	for i, p := range b.params {
		if p != nil {
			list[i] = stated(f.specs[p])
		}
	}
	return list
}

// stated converts a Spec to the form of cases.
func stated(s mesh.Spec) *spmdTensor {
	t := &spmdTensor{MultiDims: make([][]int, s.Rank())}
	for d, axes := range s.Dims {
		for _, a := range axes {
			n := 0
			if _, err := fmt.Sscanf(a.Axis, "d%d", &n); err == nil && a.Size == 0 {
				t.MultiDims[d] = append(t.MultiDims[d], n)
			}
		}
	}
	return t
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// recorded returns the spec that a case states for tensor i, with our answer for what it does not state.
func recorded(m *mesh.Mesh, list []*spmdTensor, i int, ours mesh.Spec) mesh.Spec {
	if i >= len(list) || list[i] == nil || list[i].Empty {
		return ours
	}
	want := list[i]
	if want.contradicts(m, ours) == "" {
		return ours
	}
	s, err := want.spec(m, ours.Rank())
	if err != nil {
		return ours
	}
	if _, ok := want.mapping(); !ok {
		s.Dims = ours.Dims
	}
	if want.Partial == nil {
		for _, p := range ours.Partial {
			if !m.Overlap(p.Sub, s.Used()) {
				s = s.With(append(slices.Clone(s.Partial), p)...)
			}
		}
	}
	return s
}

// transition is the change of one tensor's layout in our answer and in the recorded one.
type transition struct {
	typ                ir.Type
	have, ours, theirs mesh.Spec
}

// enter adds the tensor to both bills: as moved bytes if it is on the given side, else as what is left to
// reduce.
func (t transition) enter(ours, theirs *bill, isGiven bool) {
	ours.held += ours.local(t.typ, t.ours)
	theirs.held += theirs.local(t.typ, t.theirs)
	ours.otherDims = ours.otherDims || !slices.EqualFunc(t.ours.Dims, t.theirs.Dims, mesh.Axes.Equal)
	if isGiven {
		ours.move(t.typ, t.have, t.ours)
		theirs.move(t.typ, t.have, t.theirs)
		return
	}
	ours.leave(t.typ, t.ours, t.theirs)
	theirs.leave(t.typ, t.theirs, t.theirs)
}

// bill is the cost of an answer, over all devices.
type bill struct {
	m *mesh.Mesh
	// moved is bytes between devices, due those of pending reductions, there those until all layouts are as
	// recorded.
	moved, due, there float64
	// held is the bytes of the largest shards.
	held float64
	// otherDims means that some tensor's dims are split differently than recorded.
	otherDims bool
	err       error
}

// leave counts what is still to do to a tensor.
func (b *bill) leave(t ir.Type, s, recorded mesh.Spec) {
	b.due += b.cost(t, s, s.With())
	b.there += b.cost(t, s, recorded.With())
}

// cost returns what a reshard would add.
func (b *bill) cost(t ir.Type, have, want mesh.Spec) float64 {
	c := &bill{m: b.m}
	c.move(t, have, want)
	b.err = firstError(b.err, c.err)
	return c.moved
}

// local returns the bytes of the largest part.
func (b *bill) local(t ir.Type, s mesh.Spec) float64 {
	l, err := s.Layout(b.m, t.Shape)
	if err != nil {
		b.err = firstError(b.err, err)
		return 0
	}
	n := t.DType.Size()
	for _, d := range l.MaxShape() {
		n *= d
	}
	return float64(n)
}

// move adds the bytes of resharding a tensor: ring reductions over unreduced axes that disappear,
// then what devices lack of their new shard. New unreduced axes cost nothing: one device keeps the
// value.
func (b *bill) move(t ir.Type, have, want mesh.Spec) {
	if have.Rank() != len(t.Shape) || have.Equal(want) {
		return
	}
	for _, p := range have.Partial {
		if slices.Contains(want.Partial, p) {
			continue
		}
		k := float64(b.m.Extent(p.Sub))
		each := (k - 1) / k * b.local(t, have) * float64(b.m.Size())
		if d := splitBy(want, p.Sub); d >= 0 {
			have = have.Clone()
			have.Dims[d] = append(have.Dims[d], p.Sub)
			have = have.With(without(have.Partial, p)...)
			b.moved += each
			continue
		}
		have = have.With(without(have.Partial, p)...)
		b.moved += 2 * each
	}
	b.transfer(t, have.With(), want.With())
}

// transfer counts what devices lack of their new part.
func (b *bill) transfer(t ir.Type, have, want mesh.Spec) {
	from, err := have.Layout(b.m, t.Shape)
	to, err2 := want.Layout(b.m, t.Shape)
	if err := firstError(err, err2); err != nil {
		b.err = firstError(b.err, err)
		return
	}
	list, err := mesh.Intersect(from, to)
	b.err = firstError(b.err, err)
	for _, x := range list {
		if !x.Local() {
			b.moved += float64(x.Box.Len() * t.DType.Size())
		}
	}
}

// splitBy returns the dim that a whole axis splits, -1 if none.
func splitBy(s mesh.Spec, axis mesh.Sub) int {
	return slices.IndexFunc(s.Dims, func(a mesh.Axes) bool { return slices.Contains(a, axis) })
}

func without(list []mesh.Pending, p mesh.Pending) []mesh.Pending {
	return slices.DeleteFunc(slices.Clone(list), func(q mesh.Pending) bool { return q == p })
}
