package stage

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// RowsConfig says what of a program is cut into micro-batches.
type RowsConfig struct {
	// Weights is how many of the first parameters do not come with the batch.
	Weights int
	// Cut says of each parameter whether its first dim is the batch's rows; Rows is how many there are.
	Cut  []bool
	Rows int
}

// Rows is a program of a whole batch, seen as a sum over its rows. Every op's sharding rule reports what
// becomes of rows: a value has a part for each of them, is the same for all, or is a sum over them. What is
// none of these, but of the batch alone, is computed before, from all of it: what a mean is divided by.
type Rows struct {
	f       *ir.Func
	c       RowsConfig
	layouts []rowLayout
	// learned is the values that depend on weights; given is the operands that are computed before, by their
	// number in order.
	learned []bool
	given   map[operand]int
	order   []*ir.Value
	// own is the values that depend on statistics of a micro-batch's own rows: there is none of the whole batch.
	own []bool
}

// operand is one of a node.
type operand struct {
	node  *ir.Node
	index int
}

// rowLayout is what rows are in a value.
type rowLayout struct {
	kind rowKind
	// dim has the rows: it is before blocks of a part for each row, each of after elements.
	dim, before, after int
	// index is whether its elements are positions among the rows: they mean something to ops that take rows
	// there only.
	index bool
	// err says why rows cannot be told.
	err error
}

type rowKind uint8

const (
	sameForAll rowKind = iota
	perRow
	sumOfRows
	unclear
)

// NewRows looks at what rows become in a program.
func NewRows(f *ir.Func, c RowsConfig) *Rows {
	r := &Rows{f: f, c: c, layouts: make([]rowLayout, f.NumValues()), learned: make([]bool, f.NumValues()),
		given: map[operand]int{}, own: make([]bool, f.NumValues())}
	for i, p := range f.Params() {
		r.learned[p.ID()] = i < c.Weights
		if c.Cut[i] {
			r.layouts[p.ID()] = rowLayout{kind: perRow, before: 1, after: 1}
		}
	}
	for _, n := range f.Nodes() {
		for _, v := range n.Out() {
			r.learned[v.ID()] = slices.ContainsFunc(op.Sources(v), func(x *ir.Value) bool { return r.learned[x.ID()] })
		}
		for i, layout := range r.node(n) {
			r.layouts[n.Out()[i].ID()] = layout
		}
		r.keepOwn(n)
	}
	return r
}

// Check returns an error, with the line, if rows cannot be told in a result: it has no part for each row, is
// not the same for all and not a sum over them.
func (r *Rows) Check() error {
	for _, v := range r.f.Results() {
		if layout := r.layouts[v.ID()]; layout.kind == unclear {
			return layout.err
		}
	}
	return nil
}

// node returns what rows are in a node's results. Where they cannot be told, operands that depend on no
// weight are computed before.
func (r *Rows) node(n *ir.Node) []rowLayout {
	layouts, ok := r.apply(n)
	for _, also := range []rowKind{unclear, perRow} {
		if !ok && r.learned[n.Out()[0].ID()] && r.before(n, also) {
			layouts, ok = r.apply(n)
		}
	}
	return layouts
}

// before takes operands that depend on no weight from a program that runs before, and reports whether there
// are any.
func (r *Rows) before(n *ir.Node, also rowKind) (any bool) {
	for i, v := range n.In() {
		layout := r.layout(n, i)
		if r.learned[v.ID()] || r.own[v.ID()] || layout.kind == sameForAll || layout.kind == perRow &&
			also != perRow {
			continue
		}
		at := slices.Index(r.order, v)
		if at < 0 {
			at, r.order = len(r.order), append(r.order, v)
		}
		r.given[operand{n, i}], any = at, true
	}
	return any
}

// layout returns what rows are in an operand of a node.
func (r *Rows) layout(n *ir.Node, i int) rowLayout {
	if _, ok := r.given[operand{n, i}]; ok {
		return rowLayout{}
	}
	return r.layouts[n.In()[i].ID()]
}

// apply returns what rows are in a node's results, by its rule.
func (r *Rows) apply(n *ir.Node) ([]rowLayout, bool) {
	if layouts, ok := r.indexed(n); ok {
		return layouts, true
	}
	if layouts, ok := r.statistic(n); ok {
		return layouts, true
	}
	var rows, sums bool
	for i := range n.In() {
		switch layout := r.layout(n, i); layout.kind {
		case unclear:
			return slices.Repeat([]rowLayout{layout}, len(n.Out())), false
		case perRow:
			rows = true
		case sumOfRows:
			sums = true
		}
	}
	switch {
	case rows && sums:
		return r.unclear(n, "it takes rows and a sum over rows together")
	case rows:
		return r.applyRows(n)
	case sums && r.linear(n) == nil:
		return r.unclear(n, "it is not linear in a sum over rows")
	case sums:
		return slices.Repeat([]rowLayout{{kind: sumOfRows}}, len(n.Out())), true
	}
	return make([]rowLayout, len(n.Out())), true
}

// unclear returns the results of a node whose rows cannot be told.
func (r *Rows) unclear(n *ir.Node, why string) ([]rowLayout, bool) {
	err := &ir.Error{Pos: n.Pos(), Op: n.Op().Name(),
		Err: fmt.Errorf("%s, so it would change with the size of micro-batches", why)}
	return slices.Repeat([]rowLayout{{kind: unclear, err: err}}, len(n.Out())), false
}

// linear returns the group of operands in which a node is linear and that has all its sums, nil if there is
// none.
func (r *Rows) linear(n *ir.Node) []int {
	l, ok := n.Op().(op.Multilinear)
	if !ok {
		return nil
	}
	for _, g := range l.Linear() {
		if len(g) == 0 {
			for i := range n.In() {
				g = append(g, i)
			}
		}
		// What is the same for all is shared out, which integers cannot be.
		whole := slices.ContainsFunc(g, func(i int) bool {
			return r.layout(n,
				i).kind == sameForAll && !n.In()[i].DType().IsFloat()
		})
		if !whole && r.inside(n, g) {
			return g
		}
	}
	return nil
}

// inside reports whether all sums that go into a node are in a group of its operands.
func (r *Rows) inside(n *ir.Node, group []int) bool {
	for i := range n.In() {
		if r.layout(n, i).kind == sumOfRows && !slices.Contains(group, i) {
			return false
		}
	}
	return true
}

// applyRows is like apply where rows go in.
func (r *Rows) applyRows(n *ir.Node) ([]rowLayout, bool) {
	b, err := r.bind(n)
	if err != nil {
		return r.unclear(n, err.Error())
	}
	out := make([]rowLayout, len(n.Out()))
	for i := range out {
		layout, ok := b.layout(len(n.In()) + i)
		layout.index = r.takesIndex(n)
		switch {
		case ok:
			out[i] = layout
		case b.sums() && !layout.index:
			out[i] = rowLayout{kind: sumOfRows}
		default:
			bad, _ := r.unclear(n, "it combines rows in another way than by summing")
			out[i] = bad[i]
		}
	}
	return out, true
}
