package random

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// inPlan returns an error if a plan has a tensor in another layout than requested: a parameter, an optimizer
// slot of it, or a value that depends on parameters. Values that depend on the batch alone are computed
// wherever they are needed.
func (p *Annotated) inPlan(d *galley.DistModel, zero int) error {
	var types []galley.Type
	for _, a := range p.batch(0) {
		types = append(types, ir.TypeOf(a))
	}
	plan, err := d.Trainer().Plan(types...)
	if err != nil {
		return err
	}
	if plan.Step == nil {
		return p.onOne()
	}
	for i := range plan.Step.Weights {
		if err := p.weightInPlan(plan.Step, i, zero); err != nil {
			return fmt.Errorf("w%d: %w", i, err)
		}
	}
	found, err := laidIn(plan.Step)
	if err != nil {
		return err
	}
	for i, c := range p.Code {
		if c.At.Mesh < 0 || !p.learned(len(p.Inputs)+i) {
			continue
		}
		want, err := p.spec(c.At)
		if err == nil && !found[layoutKey(want.Mesh, want.Spec)] {
			err = fmt.Errorf("nothing in the plan lies as %v on %v", want.Spec, want.Mesh)
		}
		if err != nil {
			return fmt.Errorf("v%d = %s: %w", len(p.Inputs)+i, c.Op, err)
		}
	}
	return nil
}

// onOne returns an error if a program that requests several devices has a plan for one.
func (p *Annotated) onOne() error {
	for _, m := range p.Meshes {
		if m.Size() > 1 || !m.Contains(0) {
			return fmt.Errorf("the plan has one device, the program a mesh %v", m)
		}
	}
	return nil
}

// spec returns a requested layout as an op.Layout.
func (p *Annotated) spec(at laid) (l op.Layout, err error) {
	l.Mesh = p.Meshes[at.Mesh]
	rank := 0
	for _, x := range at.Places {
		if d, ok := x.Dim(); ok {
			rank = max(rank, d+1)
		}
	}
	l.Spec, err = at.Places.Spec(l.Mesh, rank)
	return l, err
}

// layoutKey returns a layout without axes of one device, and without the whole dims at its end, which
// annotations of several ranks share.
func layoutKey(m *mesh.Mesh, s mesh.Spec) string {
	s = real(m, s)
	for len(s.Dims) > 0 && len(s.Dims[len(s.Dims)-1]) == 0 {
		s.Dims = s.Dims[:len(s.Dims)-1]
	}
	if m.Size() == 1 {
		return fmt.Sprintf("%v on device %d", s, m.Devices()[0])
	}
	return fmt.Sprintf("%v on %v", s, m)
}

// real returns a spec without axes of one device: they split nothing.
func real(m *mesh.Mesh, s mesh.Spec) mesh.Spec {
	s = s.Clone()
	for d := range s.Dims {
		s.Dims[d] = slices.DeleteFunc(s.Dims[d], func(x mesh.Sub) bool { return m.Extent(x) == 1 })
	}
	s.Partial = slices.DeleteFunc(s.Partial, func(q mesh.Pending) bool { return m.Extent(q.Sub) == 1 })
	return s
}

// weightInPlan compares a parameter's layout with the requested one; ZeRO may shard it
// additionally.
func (p *Annotated) weightInPlan(plan *step.Plan, i, zero int) error {
	at := p.Weights[i].At
	if at.Mesh < 0 {
		return nil
	}
	want, err := at.Places.Spec(p.Meshes[at.Mesh], len(p.Weights[i].Shape))
	if err != nil {
		return err
	}
	w := &plan.Weights[i]
	lay := w.LayoutsOn(plan.Meshes, w.Home)
	for _, x := range []struct {
		name string
		got  mesh.Spec
		from int
	}{{"the parameter", lay.Rest, 3}, {"the sum of its gradients", lay.Sum, 2}, {"its slots", lay.Slot, 1},
		{"its use", lay.Use, 4}} {
		if !lay.Mesh.Equal(p.Meshes[at.Mesh]) || !besides(zero, x.from, lay.Mesh, x.got, want) {
			return fmt.Errorf("%s: got %v on %v, want %v on %v", x.name, x.got, lay.Mesh, want, p.Meshes[at.Mesh])
		}
	}
	return nil
}

// laidIn returns the requested layouts of values in forward programs; each value must have its layout.
func laidIn(plan *step.Plan) (map[string]bool, error) {
	found := map[string]bool{}
	for _, part := range plan.Parts {
		if part.Kind != pipeline.Forward {
			continue
		}
		for _, n := range part.Func.Nodes() {
			c, ok := n.Op().(op.Constrainer)
			if !ok {
				continue
			}
			m, s, err := c.Constraint()
			if err != nil {
				return nil, err
			}
			id := n.Out()[0].ID()
			if layoutKey(part.Meshes[id], part.Specs[id]) != layoutKey(m, s.Spec) {
				return nil, fmt.Errorf("%s: got %v on %v in the plan, want %v on %v", n.Pos(), part.Specs[id],
					part.Meshes[id], s.Spec, m)
			}
			found[layoutKey(m, s.Spec)] = true
		}
	}
	return found, nil
}

// learned reports whether a value depends on weights.
func (p *Annotated) learned(value int) bool {
	if value < len(p.Inputs) {
		return false
	}
	c := p.Code[value-len(p.Inputs)]
	if len(c.Weights) > 0 {
		return true
	}
	for _, i := range c.In {
		if p.learned(i) {
			return true
		}
	}
	return false
}
