package plan

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// scanChunk is the number of positions of a scan that are computed at once: it changes what gradients
// recompute, not how much.
const scanChunk = 256

// scanHeads returns a device's share of the heads and of the groups that they share.
func (m *Model) scanHeads(tp int) (heads, groups int) {
	groups = ceil(m.Recurrent.Groups, tp)
	return ceil(ceil(m.Heads, tp), groups) * groups, groups
}

// recurrent returns the projections around a scan.
func (s *sketch) recurrent(k pieceKey) *ir.Value {
	m := &s.w.Model
	heads, groups := m.scanHeads(k.tp)
	width, states := heads*m.headDim(), groups*m.Recurrent.States
	all := s.linear(s.input(k.tokens, m.Hidden), max(ceil(m.Recurrent.In, k.tp), width+states))
	parts := op.Split(all, 1, width, states, all.Dim(1)-width-states)
	x := op.Reshape(parts[0], k.batch, k.query, heads, m.headDim())
	b := op.Reshape(parts[1], k.batch, k.query, groups, m.Recurrent.States)
	if k.keys > k.query { // a device that shares a sequence processes all of it
		x, b = s.input(k.batch, k.keys, heads, m.headDim()), s.input(k.batch, k.keys, groups,
			m.Recurrent.States)
	}
	y := op.Narrow(s.scan(x, b), 1, 0, k.query)
	return s.linear(op.SiLU(op.Reshape(y, k.tokens, width)), m.Hidden)
}

// scan returns the recurrence alone.
func (s *sketch) scan(x, b *ir.Value) *ir.Value {
	t := x.Shape()
	decay := s.value("decay", t[0], t[1], t[2])
	first := op.Full(s.b, s.dtype, array.Shape{t[0], t[2], t[3], b.Dim(3)}, 0)
	y, _ := op.StateScan(x, decay, b, b, first, scanChunk)
	return y
}
