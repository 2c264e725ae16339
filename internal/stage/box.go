package stage

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Box returns a program that computes a box of f's only result. By the sharding rules, every op computes only
// what the box needs. It fails if a rule does not allow that, or if f has parameters.
func Box(f *ir.Func, box mesh.Box) (*ir.Func, error) {
	if len(f.Params()) > 0 || len(f.Results()) != 1 {
		return nil, fmt.Errorf("%s: want a program of no operands and one result", f.Name())
	}
	c := cutter{want: map[*ir.Value]mesh.Box{f.Results()[0]: box}, local: map[*ir.Node]op.Op{}}
	for _, n := range slices.Backward(f.Nodes()) {
		if err := c.node(n); err != nil {
			return nil, &ir.Error{Pos: n.Pos(), Op: n.Op().Name(), Err: err}
		}
	}
	return f.Rewrite(func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		if c.local[n] == nil {
			return make([]*ir.Value, len(n.Out())) // nothing needs it
		}
		return b.Apply(c.local[n], in)
	})
}

// cutter traverses a program from its end.
type cutter struct {
	// want holds the box that is needed of each value, local the op that computes it.
	want  map[*ir.Value]mesh.Box
	local map[*ir.Node]op.Op
}

// node determines the op that computes the needed part of a node's results, and what that needs.
func (c *cutter) node(n *ir.Node) error {
	at, err := c.place(n)
	if at == nil || err != nil {
		return err
	}
	for i, v := range n.In() {
		if err := c.need(v, boxIn(at, i)); err != nil {
			return err
		}
	}
	c.local[n], err = op.Localize(n.Op().(op.Op), at)
	return err
}

// place returns the range of each factor of a node that its results need; nil if nothing is needed.
func (c *cutter) place(n *ir.Node) (*op.Place, error) {
	in, out := ir.TypesOf(n.In()), ir.TypesOf(n.Out())
	rule, err := n.Op().(op.Op).Rule(in).Bind(shapes(in), shapes(out))
	if err != nil {
		return nil, err
	}
	ranges := make([]mesh.Range, len(rule.Factors))
	for i, f := range rule.Factors {
		ranges[i].Size = f.Size
	}
	needed := false
	for i, v := range n.Out() {
		box, ok := c.want[v]
		for d := range box.Size {
			if names := rule.Out[i][d]; len(names) == 1 {
				ranges[rule.Index(names[0])] = mesh.Range{Start: box.Start[d], Size: box.Size[d]}
			}
		}
		needed = needed || ok
	}
	if !needed {
		return nil, nil
	}
	at := op.NewPart(rule, ranges, in, out)
	return at, c.check(n, rule, at)
}

// check returns an error if a place does not match the needed boxes, or splits a factor that must not be
// split.
func (c *cutter) check(n *ir.Node, rule *mesh.Parsed, at *op.Place) error {
	for i, f := range rule.Factors {
		if (f.Whole || f.Joint) && at.Ranges[i].Size != f.Size {
			return fmt.Errorf("it needs all of a dim")
		}
	}
	for i, v := range n.Out() {
		if box, ok := c.want[v]; ok && (!slices.Equal(at.Starts(i), box.Start) ||
			!slices.Equal(at.OutShape(i), box.Size)) {
			return fmt.Errorf("its rule does not tell a box of %v from %v on", box.Size, box.Start)
		}
	}
	return nil
}

// need requests a box of a value.
func (c *cutter) need(v *ir.Value, box mesh.Box) error {
	if had, ok := c.want[v]; ok && (!slices.Equal(had.Start, box.Start) || !slices.Equal(had.Size, box.Size)) {
		return fmt.Errorf("two boxes of one value are needed")
	}
	c.want[v] = box
	return nil
}

// boxIn returns the box of an operand at a place.
func boxIn(at *op.Place, i int) mesh.Box {
	box := mesh.Box{Start: make([]int, len(at.In[i].Shape)), Size: make([]int, len(at.In[i].Shape))}
	for d := range box.Size {
		r := at.InRange(i, d)
		box.Start[d], box.Size[d] = r.Start, r.Size
	}
	return box
}
