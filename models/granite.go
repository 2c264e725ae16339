package models

import (
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Multipliers holds granite's factors of token embeddings, of scores, of what each layer adds to the residual
// stream and of logits; 0 means 1, and for Attention the usual factor for the size of a head.
type Multipliers struct{ Embedding, Attention, Residual, Logits float64 }

// buildGranite builds granite: Llama with constant factors.
func buildGranite(f *family, c Config, in *nn.Init) (*decoder, error) {
	b, err := newLlamaBuilder(f, c)
	if err != nil {
		return nil, err
	}
	m := b.model(in, func(in *nn.Init, i int) block {
		out := b.block(in, i).(residual)
		out.attention.(*nn.Attention).Heads.Scale = c.Multipliers.Attention
		if by := c.Multipliers.Residual; by != 1 {
			out.attentionPost, out.mlpPost = multiplied(by), multiplied(by)
		}
		return out
	})
	m.stem.scale, m.head.scale = c.Multipliers.Embedding, c.Multipliers.Logits
	return m, nil
}

// multiplied is a layer that multiplies by a constant.
type multiplied float64

// Forward returns x times the number.
func (by multiplied) Forward(x *op.Tensor) *op.Tensor { return op.MulScalar(x, float64(by)) }
