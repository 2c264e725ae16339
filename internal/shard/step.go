package shard

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Step describes how one op runs on a mesh.
type Step struct {
	// Rule is the op's rule for its global types.
	Rule *mesh.Parsed
	// Assign is the axes of each factor.
	Assign mesh.Assignment
	// In is the layout that operands must have, Out the resulting layout of results.
	In, Out []mesh.Spec
	// Reasons explain the decision, and what was requested and not granted.
	Reasons []string
}

// Bind returns an op's rule for global types.
func Bind(o op.Op, in, out []ir.Type) (*mesh.Parsed, error) {
	p, err := o.Rule(in).Bind(shapes(in), shapes(out))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Name(), err)
	}
	return p, nil
}

func shapes(ts []ir.Type) [][]int {
	list := make([][]int, len(ts))
	for i, t := range ts {
		list[i] = t.Shape
	}
	return list
}

// Forward returns how an op runs on operands in the given layouts: have has one Spec for each.
func Forward(o op.Op, m *mesh.Mesh, in, out []ir.Type, have []mesh.Spec) (*Step, error) {
	if len(have) != len(in) {
		return nil, fmt.Errorf("%s: %d specs: want one for each of %d operands", o.Name(), len(have), len(in))
	}
	return Choose(o, m, in, out, have, nil)
}

// Backward returns how an op runs if its results should have the given layouts. Partial sums that are
// requested of a result are passed to the operands if the op is linear in all float operands; otherwise Out
// has none.
func Backward(o op.Op, m *mesh.Mesh, in, out []ir.Type, want []mesh.Spec) (*Step, error) {
	if len(want) != len(out) {
		return nil, fmt.Errorf("%s: %d specs: want one for each of %d results", o.Name(), len(want), len(out))
	}
	return Choose(o, m, in, out, nil, want)
}

// Choose returns how an op runs on operands in the given layouts, with requested layouts of results; nil for
// either means that nothing is known.
func Choose(o op.Op, m *mesh.Mesh, in, out []ir.Type, have, want []mesh.Spec) (*Step, error) {
	p, err := Bind(o, in, out)
	if err != nil {
		return nil, err
	}
	if joint, err := cooperative(o, m, in, out, have, want); joint != nil || err != nil {
		return joint, err
	}
	return chooseUnder(p, o, m, in, out, have, want)
}

// cooperative returns how devices compute an op jointly; nil if nothing that is requested needs it.
func cooperative(o op.Op, m *mesh.Mesh, in, out []ir.Type, have, want []mesh.Spec) (*Step, error) {
	how := op.CooperativeRuleOf(o, in)
	if how.Rule == "" {
		return nil, nil
	}
	p, err := how.Rule.Bind(shapes(in), shapes(out))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Name(), err)
	}
	s, err := chooseUnder(p, o, m, in, out, have, want)
	if err != nil {
		return nil, err
	}
	if !p.Exchanges(m, s.Assign) {
		return nil, nil
	}
	return s, nil
}

// chooseUnder is Choose under one rule.
func chooseUnder(p *mesh.Parsed, o op.Op, m *mesh.Mesh, in, out []ir.Type, have, want []mesh.Spec) (*Step,
	error) {
	var err error
	c := &chooser{o: o, m: m, p: p, types: slices.Concat(in, out),
		wants: make([]mesh.Projection, p.NumTensors()), given: make([]*mesh.Spec, p.NumTensors())}
	for i, s := range have {
		if c.wants[i], err = p.Project(m, i, s); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", o.Name(), p.Name(i), err)
		}
		c.given[i] = &s
	}
	for i, s := range want {
		t := len(in) + i
		if c.wants[t], err = p.Project(m, t, s); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", o.Name(), p.Name(t), err)
		}
		c.given[t] = &s
	}
	return c.step()
}

// chooser finds one assignment for the requests of an op's tensors.
type chooser struct {
	o       op.Op
	m       *mesh.Mesh
	p       *mesh.Parsed
	types   []ir.Type // of operands, then results
	wants   []mesh.Projection
	given   []*mesh.Spec // by tensor: its given layout, nil for none
	reasons []string
}

func (c *chooser) say(format string, args ...any) {
	c.reasons = append(c.reasons, fmt.Sprintf(format, args...))
}

func (c *chooser) step() (*Step, error) {
	a, conflicts := c.cheapest()
	in, out, err := c.p.Specs(c.m, a)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.o.Name(), err)
	}
	c.explain(a)
	for _, x := range conflicts {
		c.say("%v", x)
	}
	c.passPartial(in, out)
	return &Step{Rule: c.p, Assign: a, In: in, Out: out, Reasons: c.reasons}, nil
}

// bySize returns the tensors' numbers, the largest first.
func (c *chooser) bySize() []int {
	order := make([]int, len(c.wants))
	for t := range order {
		order[t] = t
	}
	slices.SortStableFunc(order, func(s, t int) int { return c.types[t].Shape.Len() - c.types[s].Shape.Len() })
	return order
}

// preferLarger withdraws the request of a smaller tensor for a factor if a larger one requests something
// else.
func (c *chooser) preferLarger() {
	order := c.bySize()
	for f := range c.p.Factors {
		winner := -1
		for _, t := range order {
			if len(c.wants[t].Axes) == 0 || len(c.wants[t].Axes[f]) == 0 {
				continue
			}
			if winner < 0 {
				winner = t
				continue
			}
			own, kept := c.wants[t].Axes[f], c.wants[winner].Axes[f]
			switch {
			case c.m.HasPrefix(kept, own):
			case c.m.HasPrefix(own, kept):
				winner = t
			default:
				c.say("factor %c: %s of %s gives way to %s of %s, which is larger or comes first",
					c.p.Factors[f].Name, own, c.p.Name(t), kept, c.p.Name(winner))
				c.wants[t].Axes[f] = nil
			}
		}
	}
}

// explain records for each split factor which tensor requested it.
func (c *chooser) explain(a mesh.Assignment) {
	for f, axes := range a {
		if len(axes) == 0 {
			continue
		}
		for t := range c.wants {
			if len(c.wants[t].Axes) > 0 && c.m.HasPrefix(c.wants[t].Axes[f], axes) {
				c.say("factor %c is split by %s as in %s", c.p.Factors[f].Name, axes, c.p.Name(t))
				break
			}
		}
	}
}
