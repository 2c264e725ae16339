package nn

import "github.com/galley-ml/galley/op"

// Dropout zeroes random elements in training, with a new mask for each step, and is the identity otherwise.
// The zero value is the identity.
type Dropout struct {
	// Rate is the probability that an element is zeroed.
	Rate float64
	// Key distinguishes this layer's random numbers from those of other layers.
	Key  op.Key
	mode *mode
	// sequence is the order of the rows of x [batch, seq, width].
	sequence Sequence
}

// NewDropout creates a layer whose random numbers are derived from its name.
func NewDropout(in *Init, rate float64) *Dropout {
	return &Dropout{Rate: rate, Key: keyOf(in.config.Seed, in.prefix+"dropout"), mode: &in.mode}
}

// Active reports whether the layer zeroes elements now.
func (d *Dropout) Active() bool {
	return d != nil && d.Rate > 0 && d.mode != nil && d.mode.step != nil
}

// Forward applies dropout to x.
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

// zigzag is like Forward for dims in the zigzag order of parts: it drops the same elements.
func (d *Dropout) zigzag(x *op.Tensor, parts int, dims ...int) *op.Tensor {
	return op.DropoutZigzag(x, d.mode.step(), d.Key, d.Rate, parts, dims...)
}

// Over returns the same layer for sequences of this layout.
func (d *Dropout) Over(s Sequence) *Dropout {
	other := *d
	other.sequence = s
	return &other
}
