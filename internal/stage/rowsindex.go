package stage

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// indexed returns the rows in the results of a node that orders rows, or takes rows in such an order, and
// whether it is one.
func (r *Rows) indexed(n *ir.Node) ([]rowLayout, bool) {
	o, ok := n.Op().(op.RowIndexer)
	if !ok {
		return nil, false
	}
	in, any := make([]op.Rows, len(n.In())), false
	for i := range n.In() {
		layout := r.layout(n, i)
		if layout.kind == unclear || layout.kind == perRow && layout.before > 1 {
			return nil, false
		}
		in[i], any = rowsOp(layout), any || layout.kind != sameForAll
	}
	out, ok := o.RowIndex(in)
	if !ok || !any {
		return nil, false
	}
	layouts := make([]rowLayout, len(out))
	for i, x := range out {
		switch x.Kind {
		case op.RowsEach, op.RowsAt:
			layouts[i] = r.each(n.Out()[i], x)
		case op.RowsSum:
			layouts[i] = rowLayout{kind: sumOfRows}
		}
	}
	return layouts, true
}

// each returns the row layout of a value that has a part for each row.
func (r *Rows) each(v *ir.Value, x op.Rows) rowLayout {
	return rowLayout{kind: perRow, dim: x.Dim, before: 1, after: v.Dim(x.Dim) / r.c.Rows,
		index: x.Kind == op.RowsAt}
}

// rowsOp converts a row layout to that of package op.
func rowsOp(layout rowLayout) op.Rows {
	switch {
	case layout.kind == sumOfRows:
		return op.Rows{Kind: op.RowsSum}
	case layout.kind == perRow && layout.index:
		return op.Rows{Kind: op.RowsAt, Dim: layout.dim}
	case layout.kind == perRow:
		return op.Rows{Kind: op.RowsEach, Dim: layout.dim}
	}
	return op.Rows{}
}

// takesIndex reports whether an operand of a node holds positions of rows.
func (r *Rows) takesIndex(n *ir.Node) bool {
	for i := range n.In() {
		if r.layout(n, i).index {
			return true
		}
	}
	return false
}
