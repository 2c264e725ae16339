package sharding

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// flow is inference through the few ops that one recorded op consists of. A parameter gets the spec that the
// first op that disagrees with its own requests; between ops, an op that needs another layout requests it
// from the op that computes the value.
type flow struct {
	m     *mesh.Mesh
	nodes []*ir.Node // those that results depend on, in order
	specs map[*op.Tensor]mesh.Spec
	given map[*op.Tensor]mesh.Spec
	// inner lists the remaining reshards between ops of the program.
	inner []innerReshard
}

// innerReshard is a value whose layout differs between the op that computes it and one that reads it.
type innerReshard struct {
	value      *op.Tensor
	have, want mesh.Spec
}

func newFlow(m *mesh.Mesh, results []*op.Tensor) *flow {
	f := &flow{m: m, specs: map[*op.Tensor]mesh.Spec{}, given: map[*op.Tensor]mesh.Spec{}}
	seen := map[*ir.Node]bool{}
	var visit func(v *op.Tensor)
	visit = func(v *op.Tensor) {
		n := v.Node()
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		for _, x := range n.In() {
			visit(x)
		}
		f.nodes = append(f.nodes, n)
	}
	for _, r := range results {
		if r != nil {
			visit(r)
		}
	}
	return f
}

// reads reports whether the program uses a parameter.
func (f *flow) reads(p *op.Tensor) bool {
	for _, n := range f.nodes {
		if slices.Contains(n.In(), p) {
			return true
		}
	}
	return false
}

// forward infers from the operands that the case gives. Gradients are then requested in the layouts of their
// primals.
func (f *flow) forward(b *spmdBuild, results []*op.Tensor) error {
	for i, p := range b.params {
		if p == nil {
			continue
		}
		s, err := b.Inputs[i].spec(f.m, len(p.Shape()))
		if err != nil {
			return fmt.Errorf("operand %d: %w", i, err)
		}
		f.specs[p], f.given[p] = s, s
	}
	if err := f.propagate(); err != nil || b.Direction != "grad" {
		return err
	}
	for i, r := range results {
		if r == nil {
			continue
		}
		if hint, ok := b.primal(f.m, i, r); ok {
			if err := f.extend(r, hint); err != nil {
				return err
			}
		}
	}
	return nil
}

// primal returns the spec of the operand that result i is the gradient of: of the operands of its shape, the
// one with the same position as the gradient has among the gradients of that shape.
func (b *spmdBuild) primal(m *mesh.Mesh, i int, r *op.Tensor) (mesh.Spec, bool) {
	for _, t := range b.Inputs[min(i, len(b.Inputs)):] {
		if t.absent() || !r.Shape().Equal(t.Shape) {
			continue
		}
		s, err := t.spec(m, len(t.Shape))
		return s, err == nil
	}
	return mesh.Spec{}, false
}

// propagate runs forward passes until nothing changes, or for as many rounds as changes could need.
func (f *flow) propagate() error {
	for range len(f.nodes) + 3 {
		before := len(f.specs)
		f.inner = nil
		changed, err := f.pass()
		if err != nil {
			return err
		}
		if !changed && len(f.specs) == before {
			return nil
		}
	}
	return nil
}

func (f *flow) pass() (changed bool, err error) {
	for _, n := range f.nodes {
		if _, known := f.specs[n.Out()[0]]; known && len(n.In()) == 0 {
			continue // a constant has the layout that its readers request
		}
		step, err := shard.Forward(n.Op().(op.Op), f.m, types(n.In()), types(n.Out()), f.of(n.In()))
		if err != nil {
			return false, err
		}
		for i, v := range n.In() {
			if f.specs[v].Equal(step.In[i]) {
				continue
			}
			if v.Node() == nil || f.ask(v, step.In[i]) {
				f.specs[v], changed = step.In[i], true
				continue
			}
			f.inner = append(f.inner, innerReshard{v, f.specs[v], step.In[i]})
		}
		for i, v := range n.Out() {
			changed = changed || !f.specs[v].Equal(step.Out[i])
			f.specs[v] = step.Out[i]
		}
	}
	return changed, nil
}

// ask makes the op that computes v produce it in the wanted layout, if it can. Partial sums of the op itself
// are kept: they are cheaper to reduce there. It reports whether something changed.
func (f *flow) ask(v *op.Tensor, want mesh.Spec) bool {
	n := v.Node()
	for _, p := range f.specs[v].Partial {
		if !slices.Contains(want.Partial, p) && !f.passes(n, p) {
			return false
		}
	}
	wants := f.of(n.Out())
	wants[v.Index()] = want
	step, err := shard.Backward(n.Op().(op.Op), f.m, types(n.In()), types(n.Out()), wants)
	if err != nil || !step.Out[v.Index()].Equal(want) {
		return false
	}
	for i, x := range n.In() {
		if x.Node() == nil {
			f.specs[x] = step.In[i]
		} else if !f.specs[x].Equal(step.In[i]) {
			if !f.ask(x, step.In[i]) {
				f.inner = append(f.inner, innerReshard{x, f.specs[x], step.In[i]})
				continue
			}
			f.specs[x] = step.In[i]
		}
	}
	return true
}

// passes reports whether an operand of n is unreduced over the axis, so that n only passes it on.
func (f *flow) passes(n *ir.Node, p mesh.Pending) bool {
	return slices.ContainsFunc(n.In(), func(x *op.Tensor) bool { return slices.Contains(f.specs[x].Partial, p) })
}

// extend gives a result the hinted layout as far as operands only have to be sliced for
// it: unsplit factors are split by unused axes. So a gradient gets the layout of its
// primal.
func (f *flow) extend(r *op.Tensor, hint mesh.Spec) error {
	n := r.Node()
	if n == nil || len(n.In()) == 0 {
		return nil
	}
	o, in, out := n.Op().(op.Op), types(n.In()), types(n.Out())
	step, err := shard.Forward(o, f.m, in, out, f.of(n.In()))
	if err != nil {
		return err
	}
	wants := f.of(n.Out())
	wants[r.Index()] = hint.With()
	back, err := shard.Backward(o, f.m, in, out, wants)
	if err != nil {
		return err
	}
	a := step.Assign.Clone()
	for i, axes := range back.Assign {
		if len(a[i]) > 0 {
			continue
		}
		for n := len(axes); n > 0; n-- { // as much of it as possible
			if a[i] = axes[:n]; len(step.Rule.Check(f.m, a)) == 0 && !overlaps(f.m, axes[:n], step) {
				break
			}
			a[i] = nil
		}
	}
	if a.Equal(step.Assign) {
		return nil
	}
	return f.run(n, step, a)
}

// overlaps reports whether axes are partial in a step's operands.
func overlaps(m *mesh.Mesh, axes mesh.Axes, step *shard.Step) bool {
	for _, s := range step.In {
		for _, p := range s.Partial {
			if m.Overlap(p.Sub, axes) {
				return true
			}
		}
	}
	return false
}

// run applies an assignment of a node's factors; unreduced axes that the step passes on stay.
func (f *flow) run(n *ir.Node, step *shard.Step, a mesh.Assignment) error {
	in, out, err := step.Rule.Specs(f.m, a)
	if err != nil {
		return err
	}
	for i, v := range n.In() {
		s := in[i].With(step.In[i].Partial...)
		if v.Node() != nil && !f.specs[v].Equal(s) {
			f.inner = append(f.inner, innerReshard{v, f.specs[v], s})
			continue
		}
		f.specs[v] = s
	}
	for i, v := range n.Out() {
		f.specs[v] = out[i].With(append(slices.Clone(out[i].Partial), handedOn(step, i)...)...)
	}
	return nil
}

// handedOn returns the unreduced axes of result i that are from operands.
func handedOn(step *shard.Step, i int) []mesh.Pending {
	var list []mesh.Pending
	for _, p := range step.Out[i].Partial {
		if slices.ContainsFunc(step.In, func(s mesh.Spec) bool { return slices.Contains(s.Partial, p) }) {
			list = append(list, p)
		}
	}
	return list
}

// of returns the specs of values; unknown ones are replicated.
func (f *flow) of(vs []*op.Tensor) []mesh.Spec {
	list := make([]mesh.Spec, len(vs))
	for i, v := range vs {
		s, ok := f.specs[v]
		if !ok {
			s = mesh.Whole(len(v.Shape()))
			f.specs[v] = s
		}
		list[i] = s
	}
	return list
}

func types(vs []*op.Tensor) []ir.Type {
	list := make([]ir.Type, len(vs))
	for i, v := range vs {
		list[i] = v.Type()
	}
	return list
}

// backward infers from the results that the case gives: from the last op to the first and then, if there are
// several ops, forward again, since what one of them could not fulfil affects all.
func (f *flow) backward(b *spmdBuild, results []*op.Tensor) error {
	for i, r := range results {
		if r == nil || i >= len(b.Outputs) || b.Outputs[i].absent() {
			continue
		}
		s, err := b.Outputs[i].spec(f.m, len(r.Shape()))
		if err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		}
		f.specs[r], f.given[r] = s, s
	}
	for _, n := range slices.Backward(f.nodes) {
		step, err := shard.Backward(n.Op().(op.Op), f.m, types(n.In()), types(n.Out()), f.of(n.Out()))
		if err != nil {
			return err
		}
		for i, v := range n.In() {
			if s, ok := f.specs[v]; !ok || s.IsWhole() {
				f.specs[v] = step.In[i]
			}
		}
		for i, v := range n.Out() {
			f.specs[v] = step.Out[i]
		}
	}
	if len(f.nodes) == 1 {
		return nil
	}
	return f.propagate()
}

// text returns what was inferred.
func (f *flow) text(b *spmdBuild, results []*op.Tensor) string {
	var in, out []string
	for _, p := range b.params {
		if p != nil {
			in = append(in, f.specs[p].String())
		}
	}
	for _, r := range results {
		if r != nil {
			out = append(out, f.specs[r].String())
		}
	}
	return strings.Join(in, ", ") + " -> " + strings.Join(out, ", ")
}
