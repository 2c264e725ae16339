package nn

import "github.com/galley-ml/galley/op"

// Dropout clears elements at random while a model trains. Its zero value passes everything.
type Dropout struct {
	// Rate is the probability that an element is cleared.
	Rate float64
	// Key tells this layer's random numbers from those of others.
	Key op.Key
}

// NewDropout makes a layer whose random numbers belong to its name.
func NewDropout(in *Init, rate float64) *Dropout {
	return &Dropout{Rate: rate, Key: keyOf(in.config.Seed, in.prefix+"dropout")}
}

// Forward clears elements of x, others at each step, an i64 scalar. A nil step passes x as it is: the model does not
// train.
func (d *Dropout) Forward(x, step *op.Tensor) *op.Tensor {
	if step == nil {
		return x
	}
	return op.DropoutAt(x, step, d.Key, d.Rate)
}
