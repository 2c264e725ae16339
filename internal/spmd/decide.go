package spmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// decision describes how an op runs on the mesh. It is the same for all nodes with the same op, types and
// Specs.
type decision struct {
	op      op.Op
	mesh    *mesh.Mesh
	rule    *mesh.Parsed
	assign  mesh.Assignment
	in, out []ir.Type
	// need is the layout that operands must have, give the resulting layout of results.
	need, give []mesh.Spec
	// time is the total time, moved the bytes that are sent before and after it.
	time, moved float64
	// cooperative is the op if devices compute it jointly, else nil; exchanged is the bytes that they then send
	// inside.
	cooperative op.Cooperator
	exchanged   float64
}

// decide finds the cheapest way to run a node, given the layouts of its operands and the required ones of its
// results: the assignment that the operands, the results, or the largest tensors request, with partial
// operands passed through if the op is linear, or reduced before.
func (p *planner) decide(n *ir.Node) (*decision, error) {
	if len(n.Out()) == 0 {
		return nil, &ir.Error{Pos: n.Pos(), Op: n.Op().Name(),
			Err: fmt.Errorf("it has no results: want at least one, whose devices run it")}
	}
	m := p.layouts[n.Out()[0].ID()].Mesh
	have, want := p.seenFrom(m, n.In()), p.seenFrom(m, n.Out())
	key := p.decisionKey(n, m, have, want)
	if d, ok := p.decisions[key]; ok {
		return d, nil
	}
	in, out := ir.TypesOf(n.In()), ir.TypesOf(n.Out())
	o := n.Op().(op.Op)
	c := &choice{p: p, m: m, base: decision{op: o, mesh: m, in: in, out: out}, have: have, want: want}
	best, err := c.decide()
	if err != nil {
		return nil, &ir.Error{Pos: n.Pos(), Op: o.Name(), Err: err}
	}
	p.decisions[key] = best
	p.order = append(p.order, best)
	return best, nil
}

// seenFrom returns the layouts of values; those on another mesh count as replicated.
func (p *planner) seenFrom(m *mesh.Mesh, vs []*ir.Value) []mesh.Spec {
	list := make([]mesh.Spec, len(vs))
	for i, v := range vs {
		list[i] = p.now[v.ID()]
		if p.layouts[v.ID()].Mesh != m {
			list[i] = mesh.Whole(len(v.Shape()))
		}
	}
	return list
}

func (p *planner) decisionKey(n *ir.Node, m *mesh.Mesh, have, want []mesh.Spec) string {
	var b strings.Builder
	b.WriteByte(byte('0' + slices.Index(p.meshes, m)))
	b.WriteString(ir.FormatOp(n.Op()))
	for i, v := range n.In() {
		b.WriteString(v.Type().String())
		b.WriteString(have[i].String())
	}
	for i, v := range n.Out() {
		b.WriteString(v.Type().String())
		b.WriteString(want[i].String())
	}
	return b.String()
}

func shapesOf(ts []ir.Type) [][]int {
	list := make([][]int, len(ts))
	for i, t := range ts {
		list[i] = t.Shape
	}
	return list
}

// choice compares the ways to run one op.
type choice struct {
	p          *planner
	m          *mesh.Mesh
	base       decision
	have, want []mesh.Spec
	found      *decision
	seen       []mesh.Assignment
}

// decide returns the cheapest way, alone or jointly.
func (c *choice) decide() (*decision, error) {
	best, err := c.under(c.base.op.Rule(c.base.in))
	if err != nil || best.moved == 0 {
		return best, err
	}
	return c.orCooperative(best)
}

// under returns the cheapest way under a rule, nil if there is none.
func (c *choice) under(r mesh.Rule) (*decision, error) {
	var err error
	if c.base.rule, err = r.Bind(shapesOf(c.base.in), shapesOf(c.base.out)); err != nil {
		return nil, err
	}
	c.found, c.seen = nil, nil
	return c.best()
}

func (c *choice) best() (*decision, error) {
	rule := c.base.rule
	wants := make([]mesh.Projection, rule.NumTensors())
	for t, s := range slices.Concat(c.have, c.want) {
		var err error
		if wants[t], err = rule.Project(c.m, t, s); err != nil {
			return nil, fmt.Errorf("%s: %w", rule.Name(t), err)
		}
	}
	if err := c.tryOrders(wants); err != nil {
		return nil, err
	}
	// Without conflicts there is nothing to choose.
	if _, conflicts := rule.Resolve(c.m, wants); !c.free() && len(conflicts) > 0 {
		if err := c.tryMixes(append(wants, c.refilled()...)); err != nil {
			return nil, err
		}
	}
	return c.found, nil
}

// tryOrders tries the assignments that give tensors precedence in some order.
func (c *choice) tryOrders(wants []mesh.Projection) error {
	for _, order := range c.orders() {
		if err := c.tryBoth(c.resolve(wants, order)); err != nil || c.free() {
			return err
		}
	}
	return nil
}

// free reports whether a way was found that moves nothing.
func (c *choice) free() bool { return c.found != nil && c.found.moved == 0 }

// tryBoth tries an assignment with sums passed through and with sums reduced before.
func (c *choice) tryBoth(a mesh.Assignment) error {
	if slices.ContainsFunc(c.seen, a.Equal) {
		return nil
	}
	c.seen = append(c.seen, a)
	for _, pass := range []passing{passSums, reduceFirst} {
		if err := c.try(a, pass); err != nil {
			return err
		}
	}
	return nil
}

// orders returns the orders of precedence: operands, results, the largest first; or one side alone, so that
// the other is resharded entirely: partial sums of operands then pass and are reduced once, on the way to the
// result.
func (c *choice) orders() [][]int {
	n := c.base.rule.NumTensors()
	var operands, results []int
	for t := range n {
		if t < len(c.have) {
			operands = append(operands, t)
		} else {
			results = append(results, t)
		}
	}
	largest := slices.Concat(operands, results)
	size := func(t int) int { return slices.Concat(c.base.in, c.base.out)[t].Shape.Len() }
	slices.SortStableFunc(largest, func(s, t int) int { return size(t) - size(s) })
	return [][]int{slices.Concat(results, operands), slices.Concat(operands, results), largest, operands,
		results}
}

// resolve returns the assignment for an order of precedence: requests of a later tensor that conflict with
// those of an earlier one, for the axis or for the factor, do not count.
func (c *choice) resolve(wants []mesh.Projection, order []int) mesh.Assignment {
	m := c.m
	kept := make([]mesh.Projection, 0, len(order))
	taken := make([]mesh.Axes, len(c.base.rule.Factors))
	for _, t := range order {
		w := wants[t]
		if t >= len(c.have) {
			c.grantPending(taken, w)
		}
		axes := make([]mesh.Axes, len(w.Axes))
		for f, list := range w.Axes {
			if !c.overlapsOther(taken, f, list) && (m.HasPrefix(list, taken[f]) || m.HasPrefix(taken[f], list)) {
				axes[f] = list
				if m.Count(list) > m.Count(taken[f]) {
					taken[f] = list
				}
			}
		}
		kept = append(kept, mesh.Projection{Axes: axes, Rest: make([]mesh.Axes, len(axes))})
	}
	a, _ := c.base.rule.Resolve(m, kept)
	return a
}

// grantPending lets a result's partial axes keep the reduced factors that operands split by them.
func (c *choice) grantPending(taken []mesh.Axes, w mesh.Projection) {
	for _, q := range w.Partial {
		for f := range c.base.rule.Factors {
			if !c.base.rule.Reduced(f) || len(taken[f]) > 0 {
				continue
			}
			for t := range c.have {
				pr, err := c.base.rule.Project(c.m, t, c.have[t])
				if err == nil && c.m.Overlap(q.Sub, pr.Axes[f]) {
					taken[f] = pr.Axes[f]
				}
			}
		}
	}
}

// overlapsOther reports whether axes already split another factor that cannot share them.
func (c *choice) overlapsOther(taken []mesh.Axes, factor int, list mesh.Axes) bool {
	for f, axes := range taken {
		if f == factor || c.base.rule.Shares(f, factor) {
			continue
		}
		for _, s := range list {
			if c.m.Extent(s) > 1 && c.m.Overlap(s, axes) {
				return true
			}
		}
	}
	return false
}

// passing says how partial operands are treated.
type passing int

const (
	passSums    passing = iota // they stay, if the op is linear
	reduceFirst                // they are reduced before the op
)

// try prices one way and keeps it if it is the cheapest.
func (c *choice) try(a mesh.Assignment, pass passing) error {
	d := c.base
	d.assign = a
	if d.cooperative != nil && !d.rule.Exchanges(c.m, a) {
		return nil
	}
	var err error
	if d.need, d.give, err = d.rule.Specs(c.m, a); err != nil {
		return err
	}
	if pass == passSums && !c.pass(&d) {
		return nil
	}
	for i := range d.need {
		_, cost, err := c.p.router(c.m).Reshard(d.in[i], c.have[i], d.need[i])
		if err != nil {
			return err
		}
		d.time, d.moved = d.time+cost.Time, d.moved+cost.Bytes
	}
	for i := range d.give {
		_, cost, err := c.p.router(c.m).Reshard(d.out[i], d.give[i], c.want[i])
		if err != nil {
			return err
		}
		d.time, d.moved = d.time+cost.Time, d.moved+cost.Bytes
	}
	time, err := c.computing(&d)
	if err != nil {
		return err
	}
	d.time += time
	if c.found == nil || d.time < c.found.time {
		c.found = &d
	}
	return nil
}

// computing returns the time of the op itself on the first device, which has the largest shards.
func (c *choice) computing(d *decision) (float64, error) {
	if d.cooperative != nil {
		return c.exchanging(d)
	}
	at, err := op.NewPlace(d.rule, c.m, d.assign, c.m.Devices()[0], d.in, d.out)
	if err != nil {
		return 0, nil
	}
	local, err := op.Localize(d.op, at)
	if err != nil {
		return 0, nil // building will report the error
	}
	w := local.Work(at.LocalIn, at.LocalOut)
	return c.p.config.Prices.compute(w.Flops, w.Bytes), nil
}

// pass lets partial sums of operands pass through the op and reports whether there are any.
func (c *choice) pass(d *decision) bool {
	var used mesh.Axes
	for _, axes := range d.assign {
		used = append(used, axes...)
	}
	any := false
	for i, s := range c.have {
		for _, q := range s.Partial {
			if c.m.Overlap(q.Sub, used) || slices.Contains(d.need[i].Partial, q) {
				continue
			}
			if group := c.group(d, i, q); group != nil {
				used = append(used, q.Sub)
				for _, j := range group {
					d.need[j] = d.need[j].With(append(slices.Clone(d.need[j].Partial), q)...)
				}
				for j := range d.give {
					d.give[j] = d.give[j].With(append(slices.Clone(d.give[j].Partial), q)...)
				}
				any = true
			}
		}
	}
	return any
}

// group returns the operands in which the op is linear together with operand i, nil if there are none or
// their elements cannot be summed.
func (c *choice) group(d *decision, i int, q mesh.Pending) []int {
	l, ok := d.op.(op.Multilinear)
	if !ok || q.Reduce != mesh.Sum && q.Reduce != mesh.Mean {
		return nil
	}
	float := func(t ir.Type) bool { return t.DType.IsFloat() }
	for _, t := range d.out {
		if !float(t) {
			return nil
		}
	}
	for _, g := range l.Linear() {
		if len(g) == 0 {
			for j := range d.in {
				g = append(g, j)
			}
		}
		if slices.Contains(g, i) && !slices.ContainsFunc(g, func(j int) bool { return !float(d.in[j]) }) {
			return g
		}
	}
	return nil
}
