package models

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Layout describes how sequences and experts are split in training on several devices. It does not change
// results; the zero value means that sequences are not split.
type Layout struct {
	// Parts is the number of devices that split a sequence.
	Parts int
	// Context chooses the algorithm of context parallelism: op.ContextRing, op.ContextUlysses, or empty for the
	// cheapest one.
	Context string
	// Experts is the number of devices that split the experts of a mixture. If it is at least 1, tokens are sent
	// to their experts, and the experts' activations are recomputed for gradients.
	Experts int
	// Capacity, if not 0 and Experts are split, limits the tokens of an expert to that many times its even
	// share. Unlike the rest it changes results, though not depending on the number of devices. Which tokens are
	// dropped depends on the whole batch, so a batch is then not split into micro-batches.
	Capacity float64
	// Order is the order of a sequence's rows while Loss computes.
	Order Order
	// Given is the order of ids and labels that Loss is given. If it differs from Order, Loss reorders them, for
	// which devices communicate.
	Given Order
}

// Order is an order of the rows of a sequence.
type Order uint8

// Orders.
const (
	// InOrder: in the order of positions.
	InOrder Order = iota
	// Zigzag: as in op.ZigzagOrder, so that all parts have equal work under a causal mask.
	Zigzag
)

// Fit returns the layout under which a model of configuration c can be trained on sequences of length seq,
// with the reasons for everything that had to be dropped. heads is the number of devices that split the heads
// otherwise, at least 1.
func (l Layout) Fit(c Config, seq, heads int) (Layout, []string) {
	var reasons []string
	if f, err := familyOf(c.Family); err == nil && (f.encoder || f.recurrent) {
		l.Order, l.Given = InOrder, InOrder // there is no work to balance
	}
	queries, keys, parts := c.Heads, c.KVHeads, max(1, l.Parts)
	if keys == 0 {
		keys = queries
	}
	if l.Context == op.ContextUlysses && (queries%(heads*parts) != 0 || keys%(heads*parts) != 0) {
		reasons = append(reasons,
			fmt.Sprintf("%s of %d devices: %d heads of queries and %d of keys, shared by %d: want multiples of %d: "+
				"using %s",
				l.Context, parts, queries, keys, heads, heads*parts, op.ContextRing))
		l.Context = op.ContextRing
	}
	if l.Context == op.ContextUlysses && l.Given == InOrder {
		l.Order = InOrder // every device has whole sequences, so there is nothing to balance
	}
	if l.Order == Zigzag && !op.ZigzagFits(parts, seq) {
		reasons = append(reasons,
			fmt.Sprintf("zigzag of %d devices: sequence of %d: want a multiple of %d: leaving it in order", parts, seq,
				2*parts))
		l.Order, l.Given = InOrder, InOrder
	}
	return l, reasons
}

// Arrange returns the same model, with the same parameters, for sequences of this layout.
func Arrange(m Model, l Layout) (Model, error) {
	d, ok := m.(*decoder)
	if !ok {
		return nil, fmt.Errorf("models: arrange %T: want a model of this package", m)
	}
	if contexts := []string{"", op.ContextRing, op.ContextUlysses, op.ContextGather}; !slices.Contains(contexts,
		l.Context) {
		return nil, fmt.Errorf("models: context %q: want %s, %s or %s", l.Context, op.ContextRing,
			op.ContextUlysses, op.ContextGather)
	}
	if l.Given == Zigzag && l.Order != Zigzag {
		return nil, fmt.Errorf("models: sequences are given in zigzag order: want that order in the model, too")
	}
	if l.Capacity < 0 || l.Capacity > 0 && l.Experts == 0 {
		return nil, fmt.Errorf("models: capacity %v of experts that %d devices share: want 0, or more and 1 or "+
			"more devices", l.Capacity, l.Experts)
	}
	if l.Parts < 0 || l.Experts < 0 {
		return nil, fmt.Errorf("models: %d devices that share a sequence and %d that share experts: want 0 or more",
			l.Parts, l.Experts)
	}
	d = d.over(nn.Sequence{Context: l.Context}).eachBlock(func(b block) block { return b.shared(l) })
	d.layout = l
	return d, nil
}

// over returns the model for hidden states of this layout.
func (m *decoder) over(s nn.Sequence) *decoder {
	d := m.eachBlock(func(b block) block { return b.over(s) })
	d.sequence, d.stem.drop = s, over(d.stem.drop, s)
	return d
}

// packed returns the model for rows of several packed sequences, described by p in the order in which Loss
// computes.
func (m *decoder) packed(p nn.Packed) *decoder {
	s := m.sequence
	if parts := s.Parts(p.Segments.Dim(1)); parts > 0 && m.layout.Given != Zigzag {
		p.Segments, p.Positions = op.ZigzagRows(p.Segments, 1, parts), op.ZigzagRows(p.Positions, 1, parts)
	}
	s.Packed = &p
	return m.over(s)
}

// ordered returns the model, ids and labels in the order in which Loss computes.
func (m *decoder) ordered(ids, labels *op.Tensor) (*decoder, *op.Tensor, *op.Tensor) {
	if m.layout.Order != Zigzag || ids.Err() != nil || labels.Err() != nil || len(ids.Shape()) != 2 {
		return m, ids, labels
	}
	d := m.over(nn.Sequence{Context: m.layout.Context, Zigzag: m.layout.Parts})
	parts := d.sequence.Parts(ids.Dim(1))
	if parts == 0 || m.layout.Given == Zigzag {
		return d, ids, labels
	}
	return d, op.ZigzagRows(ids, 1, parts), op.ZigzagRows(labels, 1, parts)
}
