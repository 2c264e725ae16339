package stage

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// RowsConfig describes how a program is split into micro-batches.
type RowsConfig struct {
	// Weights is the number of the first parameters, which do not belong to the batch.
	Weights int
	// Cut says for each parameter whether its first dim holds the rows of the batch; Rows is their number.
	Cut  []bool
	Rows int
}

// Rows expresses a program of a whole batch as a sum over its rows. By the sharding rules of ops, each value
// has a part for each row, is the same for all rows, or is a sum over them. A value that is none of these but
// depends on the batch alone, such as the divisor of a mean, is computed first, from the whole batch.
type Rows struct {
	f       *ir.Func
	c       RowsConfig
	layouts []rowLayout
	// learned marks the values that depend on weights; given numbers the operands that are computed first, in
	// order.
	learned []bool
	given   map[operand]int
	order   []*ir.Value
	// own marks the values that depend on statistics of a micro-batch's own rows, which have no counterpart for
	// the whole batch.
	own []bool
}

// operand identifies an operand of a node.
type operand struct {
	node  *ir.Node
	index int
}

// rowLayout describes the rows in a value.
type rowLayout struct {
	kind rowKind
	// dim is the dim with the rows: it holds before blocks, each with a part of after elements for each row.
	dim, before, after int
	// index is whether the elements are positions among the rows, which only ops that take rows by position
	// understand.
	index bool
	// err is the reason why the rows are not known.
	err error
}

type rowKind uint8

const (
	sameForAll rowKind = iota
	perRow
	sumOfRows
	unclear
)

// NewRows analyses how the values of a program depend on rows.
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

// Check returns an error, with its source line, if a result neither has a part for each row, nor is the same
// for all rows, nor a sum over them.
func (r *Rows) Check() error {
	for _, v := range r.f.Results() {
		if layout := r.layouts[v.ID()]; layout.kind == unclear {
			return layout.err
		}
	}
	return nil
}

// node returns the rows in a node's results. If they are not known, operands that depend on no weight are
// computed first.
func (r *Rows) node(n *ir.Node) []rowLayout {
	layouts, ok := r.apply(n)
	for _, also := range []rowKind{unclear, perRow} {
		if !ok && r.learned[n.Out()[0].ID()] && r.before(n, also) {
			layouts, ok = r.apply(n)
		}
	}
	return layouts
}

// before lets operands that depend on no weight be computed by the program that runs first, and reports
// whether there are any.
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

// layout returns the rows in an operand of a node.
func (r *Rows) layout(n *ir.Node, i int) rowLayout {
	if _, ok := r.given[operand{n, i}]; ok {
		return rowLayout{}
	}
	return r.layouts[n.In()[i].ID()]
}

// apply returns the rows in a node's results, by its rule.
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

// unclear returns the results of a node whose rows are not known.
func (r *Rows) unclear(n *ir.Node, why string) ([]rowLayout, bool) {
	err := &ir.Error{Pos: n.Pos(), Op: n.Op().Name(),
		Err: fmt.Errorf("%s, so it would change with the size of micro-batches", why)}
	return slices.Repeat([]rowLayout{{kind: unclear, err: err}}, len(n.Out())), false
}

// linear returns the group of operands in which a node is linear and that contains all its sums, nil if there
// is none.
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
		// Values that are the same for all rows are divided, which integers cannot be.
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

// inside reports whether all operands of a node that are sums belong to a group.
func (r *Rows) inside(n *ir.Node, group []int) bool {
	for i := range n.In() {
		if r.layout(n, i).kind == sumOfRows && !slices.Contains(group, i) {
			return false
		}
	}
	return true
}

// applyRows is like apply if operands have rows.
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
