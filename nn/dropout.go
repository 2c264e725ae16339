package nn

import "github.com/galley-ml/galley/op"

// Dropout clears elements at random while its model trains, others at each step, and passes everything
// otherwise. Its zero value passes everything.
type Dropout struct {
	// Rate is the probability that an element is cleared.
	Rate float64
	// Key tells this layer's random numbers from those of others.
	Key  op.Key
	mode *mode
	// sequence is the order in which x [batch, seq, width] has its rows.
	sequence Sequence
}

// NewDropout makes a layer whose random numbers belong to its name.
func NewDropout(in *Init, rate float64) *Dropout {
	return &Dropout{Rate: rate, Key: keyOf(in.config.Seed, in.prefix+"dropout"), mode: &in.mode}
}

// Active reports whether the layer clears elements now.
func (d *Dropout) Active() bool {
	return d != nil && d.Rate > 0 && d.mode != nil && d.mode.step != nil
}

// Forward clears elements of x.
func (d *Dropout) Forward(x *op.Tensor) *op.Tensor {
	if !d.Active() {
		return x
	}
	if x.Err() == nil && len(x.Shape()) == 3 {
		if parts := d.sequence.Parts(x.Dim(1)); parts > 0 {
			return d.zigzag(x, parts, 1)
		}
	}
	return op.DropoutAt(x, d.mode.step(), d.Key, d.Rate)
}

// zigzag is like Forward where dims are in the zigzag order of so many parts: elements are cleared wherever
// they are.
func (d *Dropout) zigzag(x *op.Tensor, parts int, dims ...int) *op.Tensor {
	return op.DropoutZigzag(x, d.mode.step(), d.Key, d.Rate, parts, dims...)
}

// Over returns the same layer for sequences of this layout.
func (d *Dropout) Over(s Sequence) *Dropout {
	other := *d
	other.sequence = s
	return &other
}
