package spmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// orCooperative returns the joint computation of the op, if there is one and it is better than computing on
// resharded operands alone.
func (c *choice) orCooperative(alone *decision) (*decision, error) {
	o, ok := c.base.op.(op.Cooperator)
	if !ok {
		return alone, nil
	}
	how := o.CooperativeRule(c.base.in)
	if how.Rule == "" {
		return alone, nil
	}
	c.base.cooperative = o
	joint, err := c.under(how.Rule)
	if err != nil || joint == nil {
		return alone, err
	}
	if joint.time < alone.time || how.Prefer == op.BySize &&
		alone.moved-joint.moved >= joint.exchanged/fewTimes ||
		how.Prefer == op.Always && alone.moved > joint.moved {
		return joint, nil
	}
	return alone, nil
}

// fewTimes is how much more than a gather devices may send inside an op that prefers not to gather its
// operands.
const fewTimes = 4

// program returns what a device runs in place of an op that is computed jointly.
func (d *decision) program(device int) (*ir.Func, error) {
	at, err := d.place(device)
	if err != nil {
		return nil, err
	}
	return op.Cooperation(d.cooperative, at)
}

// exchanging returns the time of an op that is computed jointly, including communication inside it, on the
// first device.
func (c *choice) exchanging(d *decision) (float64, error) {
	f, err := d.program(c.m.Devices()[0])
	if err != nil {
		return 0, err
	}
	time := 0.0
	for _, n := range f.Nodes() {
		w := n.Op().(op.Op).Work(ir.TypesOf(n.In()), ir.TypesOf(n.Out()))
		time += c.p.config.Prices.compute(w.Flops, w.Bytes)
	}
	c.p.exchanges(f, 1, func(_ *ir.Node, x Move, times int) {
		time += x.Cost.Time * float64(times)
		d.exchanged += x.Cost.Bytes * float64(times)
	})
	return time, nil
}

// exchanges calls see for the collectives of a local program, including those in bodies of its ops, with
// their number.
func (p *planner) exchanges(f *ir.Func, times int, see func(n *ir.Node, x Move, times int)) {
	for _, n := range f.Nodes() {
		if x, ok := p.exchange(n); ok {
			see(n, x, times)
		}
		o, ok := n.Op().(op.Bodied)
		if !ok {
			continue
		}
		if bodies, err := o.Bodies(ir.TypesOf(n.In())); err == nil {
			for _, b := range bodies {
				p.exchanges(b, times*o.Trips(ir.TypesOf(n.In())), see)
			}
		}
	}
}

// exchange returns a collective of a local program as a move.
func (p *planner) exchange(n *ir.Node) (Move, bool) {
	o, ok := n.Op().(op.Collective)
	if !ok {
		return Move{}, false
	}
	w := o.Work(ir.TypesOf(n.In()), ir.TypesOf(n.Out()))
	_, text := o.Over()
	axes, err := mesh.ParseAxes(text)
	if err != nil || w.Wire == 0 {
		return Move{}, false
	}
	link := p.config.Prices.link(axes)
	return Move{
		Kind: kindOf(o.Name()), Axes: axes,
		Cost: Cost{Bytes: w.Wire, Collectives: 1, Time: link.Alpha + link.Beta*w.Wire},
	}, true
}

// kindOf returns the kind of a communicating op, by the prefix of its name.
func kindOf(name string) Kind {
	if i := slices.IndexFunc(kindNames[:], func(kind string) bool {
		return strings.HasPrefix(name,
			kind)
	}); i >= 0 {
		return Kind(i)
	}
	return Permute
}

// recordCooperation records the communication inside an op. The op itself requires it, so it counts as
// requested.
func (p *planner) recordCooperation(n *ir.Node, d *decision) error {
	if d.cooperative == nil {
		return nil
	}
	f, err := d.program(d.mesh.Devices()[0])
	if err != nil {
		return &ir.Error{Pos: n.Pos(), Op: n.Op().Name(), Err: err}
	}
	p.exchanges(f, 1, func(inner *ir.Node, x Move, times int) {
		x.Before, x.After = d.give[0], d.give[0]
		x.Cost.Bytes, x.Cost.Time = x.Cost.Bytes*float64(times), x.Cost.Time*float64(times)
		x.Cost.Collectives *= times
		p.program.inserted = append(p.program.inserted, Inserted{
			Pos: n.Pos(), Op: n.Op().Name(), Value: n.Out()[0].ID(), Move: x, Asked: true,
			Reason: fmt.Sprintf("%s is computed together: %s of %v", n.Op().Name(), inner.Op().Name(),
				inner.In()[0].Type()),
		})
	})
	return nil
}
