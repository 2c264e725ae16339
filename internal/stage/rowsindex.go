package stage

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// indexed is what rows are in the results of a node that puts them in order, or takes them in one, and
// whether it is one.
func (r *Rows) indexed(n *ir.Node) ([]rowLie, bool) {
	o, ok := n.Op().(op.RowIndexer)
	if !ok {
		return nil, false
	}
	in, any := make([]op.Rows, len(n.In())), false
	for i := range n.In() {
		lie := r.lie(n, i)
		if lie.kind == unclear || lie.kind == perRow && lie.before > 1 {
			return nil, false
		}
		in[i], any = rowsOp(lie), any || lie.kind != sameForAll
	}
	out, ok := o.RowIndex(in)
	if !ok || !any {
		return nil, false
	}
	lies := make([]rowLie, len(out))
	for i, x := range out {
		switch x.Kind {
		case op.RowsEach, op.RowsAt:
			lies[i] = r.each(n.Out()[i], x)
		case op.RowsSum:
			lies[i] = rowLie{kind: sumOfRows}
		}
	}
	return lies, true
}

// each is where a value has its rows.
func (r *Rows) each(v *ir.Value, x op.Rows) rowLie {
	return rowLie{kind: perRow, dim: x.Dim, before: 1, after: v.Dim(x.Dim) / r.c.Rows,
		index: x.Kind == op.RowsAt}
}

// rowsOp is a lie as ops speak of it.
func rowsOp(lie rowLie) op.Rows {
	switch {
	case lie.kind == sumOfRows:
		return op.Rows{Kind: op.RowsSum}
	case lie.kind == perRow && lie.index:
		return op.Rows{Kind: op.RowsAt, Dim: lie.dim}
	case lie.kind == perRow:
		return op.Rows{Kind: op.RowsEach, Dim: lie.dim}
	}
	return op.Rows{}
}

// takesIndex reports whether an operand of a node is positions of rows.
func (r *Rows) takesIndex(n *ir.Node) bool {
	for i := range n.In() {
		if r.lie(n, i).index {
			return true
		}
	}
	return false
}
