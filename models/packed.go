package models

import (
	"fmt"

	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// PackedLoss returns the loss of m on rows of several packed sequences, as data.Pack makes them: attention
// stays within a sequence, and its positions start at 0. Segments and positions are those of nn.Packed. The
// loss equals that of the sequences in rows of their own.
func PackedLoss(m Model, ids, labels, segments, positions *op.Tensor) *op.Tensor {
	for _, x := range []*op.Tensor{ids, labels, segments, positions} {
		if x.Err() != nil {
			return x
		}
	}
	d, ok := m.(*decoder)
	if !ok {
		return invalid(ids, fmt.Errorf("packed rows: %T: want a model of this package", m))
	}
	if f, err := familyOf(d.config.Family); err != nil || f.recurrent || f.images || d.config.Task != Predict {
		return invalid(ids, fmt.Errorf("packed rows: %s has no attention that keeps sequences apart: pad them "+
			"instead",
			d.config.Family))
	}
	if len(ids.Shape()) != 2 || !segments.Shape().Equal(ids.Shape()) || !positions.Shape().Equal(ids.Shape()) {
		return invalid(ids, fmt.Errorf("packed rows: ids %v, segments %v, positions %v: want all [batch, seq]",
			ids.Type(), segments.Type(), positions.Type()))
	}
	d, ids, labels = d.ordered(ids, labels)
	d = d.packed(nn.Packed{Segments: segments, Positions: positions})
	return d.tokenLoss(ids, labels)
}
