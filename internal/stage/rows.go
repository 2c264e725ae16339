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

// Rows is a program of a whole batch, seen as a sum over its rows. Every op's sharding rule tells what
// becomes of rows: a value has a part for each of them, is the same for all, or is a sum over them. What is
// none of these, but of the batch alone, is computed before, from all of it: what a mean is divided by.
type Rows struct {
	f    *ir.Func
	c    RowsConfig
	lies []rowLie
	// learned is the values that depend on weights; given is the operands that are computed before, by their
	// number in order.
	learned []bool
	given   map[operand]int
	order   []*ir.Value
}

// operand is one of a node.
type operand struct {
	node  *ir.Node
	index int
}

// rowLie is what rows are in a value.
type rowLie struct {
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
	r := &Rows{f: f, c: c, lies: make([]rowLie, f.NumValues()), learned: make([]bool, f.NumValues()),
		given: map[operand]int{}}
	for i, p := range f.Params() {
		r.learned[p.ID()] = i < c.Weights
		if c.Cut[i] {
			r.lies[p.ID()] = rowLie{kind: perRow, before: 1, after: 1}
		}
	}
	for _, n := range f.Nodes() {
		for _, v := range n.Out() {
			r.learned[v.ID()] = slices.ContainsFunc(op.Sources(v), func(x *ir.Value) bool { return r.learned[x.ID()] })
		}
		for i, lie := range r.node(n) {
			r.lies[n.Out()[i].ID()] = lie
		}
	}
	return r
}

// Check is an error, with the line, if rows cannot be told in a result: it has no part for each row, is not
// the same for all and not a sum over them.
func (r *Rows) Check() error {
	for _, v := range r.f.Results() {
		if lie := r.lies[v.ID()]; lie.kind == unclear {
			return lie.err
		}
	}
	return nil
}

// node is what rows are in a node's results. Where they cannot be told, operands that depend on no weight are
// computed before.
func (r *Rows) node(n *ir.Node) []rowLie {
	lies, ok := r.apply(n)
	for _, also := range []rowKind{unclear, perRow} {
		if !ok && r.learned[n.Out()[0].ID()] && r.before(n, also) {
			lies, ok = r.apply(n)
		}
	}
	return lies
}

// before takes operands that depend on no weight from a program that runs before, and reports whether there
// are any.
func (r *Rows) before(n *ir.Node, also rowKind) (any bool) {
	for i, v := range n.In() {
		lie := r.lie(n, i)
		if r.learned[v.ID()] || lie.kind == sameForAll || lie.kind == perRow && also != perRow {
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

// lie is what rows are in an operand of a node.
func (r *Rows) lie(n *ir.Node, i int) rowLie {
	if _, ok := r.given[operand{n, i}]; ok {
		return rowLie{}
	}
	return r.lies[n.In()[i].ID()]
}

// apply is what rows are in a node's results, by its rule.
func (r *Rows) apply(n *ir.Node) ([]rowLie, bool) {
	if lies, ok := r.indexed(n); ok {
		return lies, true
	}
	var rows, sums bool
	for i := range n.In() {
		switch lie := r.lie(n, i); lie.kind {
		case unclear:
			return slices.Repeat([]rowLie{lie}, len(n.Out())), false
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
		return slices.Repeat([]rowLie{{kind: sumOfRows}}, len(n.Out())), true
	}
	return make([]rowLie, len(n.Out())), true
}

// unclear is the results of a node whose rows cannot be told.
func (r *Rows) unclear(n *ir.Node, why string) ([]rowLie, bool) {
	err := &ir.Error{Pos: n.Pos(), Op: n.Op().Name(),
		Err: fmt.Errorf("%s, so it would change with the size of micro-batches", why)}
	return slices.Repeat([]rowLie{{kind: unclear, err: err}}, len(n.Out())), false
}

// linear is the group of operands in which a node is linear and that has all its sums, nil if there is none.
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
			return r.lie(n,
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
		if r.lie(n, i).kind == sumOfRows && !slices.Contains(group, i) {
			return false
		}
	}
	return true
}

// applyRows is apply where rows go in.
func (r *Rows) applyRows(n *ir.Node) ([]rowLie, bool) {
	b, err := r.bind(n)
	if err != nil {
		return r.unclear(n, err.Error())
	}
	out := make([]rowLie, len(n.Out()))
	for i := range out {
		lie, ok := b.lie(len(n.In()) + i)
		lie.index = r.takesIndex(n)
		switch {
		case ok:
			out[i] = lie
		case b.sums() && !lie.index:
			out[i] = rowLie{kind: sumOfRows}
		default:
			bad, _ := r.unclear(n, "it combines rows in another way than by summing")
			out[i] = bad[i]
		}
	}
	return out, true
}
