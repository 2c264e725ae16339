package stage

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// statistic returns the rows in the result of a node that turns a sum over rows into a statistic, which every
// micro-batch has of its own rows, or that updates a buffer, and whether it is one.
func (r *Rows) statistic(n *ir.Node) ([]rowLayout, bool) {
	switch n.Op().(type) {
	case op.RowStatistic:
		return []rowLayout{{}}, r.layout(n, 0).kind == sumOfRows
	case op.BufferUpdater:
		last := r.layout(n, len(n.In())-1).kind
		return []rowLayout{r.layout(n, 0)},
			r.layout(n, 0).kind != unclear && (last == sameForAll || last == sumOfRows)
	}
	return nil, false
}

// keepOwn records whether a node's results depend on statistics of a micro-batch's own rows.
func (r *Rows) keepOwn(n *ir.Node) {
	_, makes := n.Op().(op.RowStatistic)
	makes = makes && r.layout(n, 0).kind == sumOfRows
	for _, v := range n.Out() {
		r.own[v.ID()] = makes || slices.ContainsFunc(op.Sources(v), func(x *ir.Value) bool { return r.own[x.ID()] })
	}
}

// statistic adds such a node to the part: the statistic is that of the part's rows, and the part contributes
// its share of a buffer's update.
func (p *rowsPart) statistic(n *ir.Node, in []*ir.Value) error {
	var x *ir.Value
	if s, ok := n.Op().(op.RowStatistic); ok {
		scale, err := s.RowScale(p.r.c.Rows, p.n)
		if err != nil {
			return err
		}
		x = op.MulScalar(in[0], scale)
	} else {
		last := len(in) - 1
		in[last] = p.share(in[last], p.r.layout(n, last))
		x = p.b.Apply(n.Op(), in)[0]
	}
	p.env[n.Out()[0].ID()] = x
	return p.b.Err()
}
