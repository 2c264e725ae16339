package stage

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/op"
)

// Given returns the program that is run first, on the whole batch, or nil if there is none: it takes all
// parameters except the weights.
func (r *Rows) Given() (*ir.Func, error) {
	if len(r.order) == 0 {
		return nil, nil
	}
	b := ir.NewBuilder(r.f.Name() + ".given")
	env := make([]*ir.Value, r.f.NumValues())
	for _, p := range r.f.Params()[r.c.Weights:] {
		env[p.ID()] = b.Param(p.Name(), p.Type())
	}
	for _, n := range r.f.Nodes() {
		if err := r.emitGiven(b, n, env); err != nil {
			return nil, err
		}
	}
	results := make([]*ir.Value, len(r.order))
	for i, v := range r.order {
		if results[i] = env[v.ID()]; results[i] == nil {
			return nil, fmt.Errorf("%s: value %d depends on weights", r.f.Name(), v.ID())
		}
	}
	f, err := b.Build(results...)
	if err != nil {
		return nil, err
	}
	return pass.Tidy(f)
}

// emitGiven adds the results of a node that depend on no weight. If it has other results, too, it is split.
func (r *Rows) emitGiven(b *ir.Builder, n *ir.Node, env []*ir.Value) error {
	in, whole := make([]*ir.Value, len(n.In())), true
	for i, v := range n.In() {
		in[i] = env[v.ID()]
		whole = whole && in[i] != nil
	}
	defer b.At(n.Pos())()
	var out []*ir.Value
	if whole {
		out = b.Apply(n.Op(), in)
	} else {
		c, ok := n.Op().(op.Composite)
		free := false
		for _, v := range n.Out() {
			free = free || !r.learned[v.ID()]
		}
		if !ok || !free {
			return nil
		}
		for i, v := range n.In() {
			if in[i] == nil { // no requested result depends on it
				in[i] = op.Full(b, v.DType(), v.Shape(), 0)
			}
		}
		out = c.Decompose(in)
	}
	for i, v := range n.Out() {
		if !r.learned[v.ID()] {
			env[v.ID()] = out[i]
		}
	}
	return b.Err()
}

// Part returns the program of n rows, starting at start. It takes the weights, the other parameters, with
// only these rows of those that are split, and the given values. Its results without rows are terms of a sum
// over all parts. moves is whether the program depends on start.
func (r *Rows) Part(start, n int) (f *ir.Func, moves bool, err error) {
	p := &rowsPart{r: r, b: ir.NewBuilder(r.f.Name()), start: start, n: n,
		env: make([]*ir.Value, r.f.NumValues()), cut: map[rowKey]*ir.Value{}}
	for i, v := range r.f.Params() {
		t := v.Type()
		if r.c.Cut[i] {
			t.Shape = append(array.Shape{n}, t.Shape[1:]...)
		}
		p.env[v.ID()] = p.b.Param(v.Name(), t)
	}
	for i, v := range r.order {
		p.given = append(p.given, p.b.Param(fmt.Sprintf("given%d", i), v.Type()))
	}
	for _, node := range r.f.Nodes() {
		if err := p.node(node); err != nil {
			return nil, false, &ir.Error{Pos: node.Pos(), Op: node.Op().Name(), Err: err}
		}
	}
	var out []*ir.Value
	for _, v := range r.f.Results() {
		out = append(out, p.share(p.env[v.ID()], r.layouts[v.ID()]))
	}
	if f, err = p.b.Build(out...); err != nil {
		return nil, false, err
	}
	f, err = pass.Prune(f)
	return f, p.moves, err
}

// rowsPart builds the program of some rows.
type rowsPart struct {
	r        *Rows
	b        *ir.Builder
	start, n int
	moves    bool
	// env maps the whole program's IDs to the part's values; cut caches the rows of values that are the same for
	// all.
	env, given []*ir.Value
	cut        map[rowKey]*ir.Value
}

// rowKey identifies rows of a value of the part.
type rowKey struct {
	v                  *ir.Value
	dim, before, after int
}

// operand returns an operand of a node in the part.
func (p *rowsPart) operand(n *ir.Node, i int) *ir.Value {
	if at, ok := p.r.given[operand{n, i}]; ok {
		return p.given[at]
	}
	return p.env[n.In()[i].ID()]
}

func (p *rowsPart) node(n *ir.Node) error {
	if !slices.ContainsFunc(n.Out(), func(v *ir.Value) bool { return p.r.layouts[v.ID()].kind != unclear }) {
		return nil // only given values need it
	}
	rows, sums, in := false, false, make([]*ir.Value, len(n.In()))
	for i := range n.In() {
		if in[i] = p.operand(n, i); in[i] == nil {
			return nil
		}
		layout := p.r.layout(n, i)
		rows, sums = rows || layout.kind == perRow, sums || layout.kind == sumOfRows
	}
	defer p.b.At(n.Pos())()
	o := n.Op()
	_, indexed := p.r.indexed(n)
	_, statistic := p.r.statistic(n)
	switch {
	case statistic:
		return p.statistic(n, in)
	case indexed:
		if err := p.indexed(n, in); err != nil {
			return err
		}
	case rows:
		b, err := p.r.bind(n)
		if err != nil {
			return err
		}
		if o, in, err = p.local(n, b); err != nil {
			return err
		}
	case sums:
		for _, i := range p.r.linear(n) {
			in[i] = p.share(in[i], p.r.layout(n, i))
		}
	}
	for i, x := range p.b.Apply(o, in) {
		p.env[n.Out()[i].ID()] = x
	}
	return p.b.Err()
}

// indexed gives a node that takes rows by position the part's rows of its destination.
func (p *rowsPart) indexed(n *ir.Node, in []*ir.Value) (err error) {
	for i, v := range n.In() {
		if p.r.layout(n, i).kind == sameForAll && v.Type().Equal(n.Out()[0].Type()) {
			layout := p.r.layouts[n.Out()[0].ID()]
			if in[i], err = p.rowsOf(n, i, layout); err != nil {
				return err
			}
		}
	}
	return nil
}

// share returns the part's share of a value of which the parts' shares are summed: a value that is the same
// for all rows is divided.
func (p *rowsPart) share(x *ir.Value, layout rowLayout) *ir.Value {
	if layout.kind != sameForAll {
		return x
	}
	return op.MulScalar(x, float64(p.n)/float64(p.r.c.Rows))
}

// local returns a node's op and operands for the part.
func (p *rowsPart) local(n *ir.Node, b *rowFactor) (ir.Op, []*ir.Value, error) {
	o, moves, err := b.local(n.Op().(op.Op), p.start, p.n)
	if err != nil {
		return nil, nil, err
	}
	p.moves = p.moves || moves
	in := make([]*ir.Value, len(n.In()))
	for i := range n.In() {
		in[i] = p.operand(n, i)
		if layout, ok := b.layout(i); ok && p.r.layout(n, i).kind == sameForAll {
			if in[i], err = p.rowsOf(n, i, layout); err != nil {
				return nil, nil, err
			}
		}
	}
	return o, in, nil
}

// rowsOf returns the part's rows of an operand that is the same for all: computed as such if its op can, else
// sliced.
func (p *rowsPart) rowsOf(user *ir.Node, operand int, layout rowLayout) (*ir.Value, error) {
	v, whole := user.In()[operand], p.operand(user, operand)
	key := rowKey{whole, layout.dim, layout.before, layout.after}
	if x := p.cut[key]; x != nil {
		return x, nil
	}
	if n := v.Node(); n != nil && whole == p.env[v.ID()] {
		if b, err := p.r.factorOf(n, len(n.In())+v.Index(), layout); err == nil {
			if o, in, err := p.local(n, b); err == nil {
				p.cut[key] = p.b.Apply(o, in)[v.Index()]
				return p.cut[key], p.b.Err()
			}
		}
	}
	if layout.before > 1 {
		return nil, fmt.Errorf("rows of %v do not follow each other", v.Type())
	}
	p.moves = true
	p.cut[key] = op.Narrow(whole, layout.dim, p.start*layout.after, (p.start+p.n)*layout.after)
	return p.cut[key], p.b.Err()
}
