package models

import (
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Multipliers is what granite multiplies the tokens' vectors, the scores, what each layer adds to the stream
// and the logits by; 0 means 1, and for Attention what the size of a head makes it.
type Multipliers struct{ Embedding, Attention, Residual, Logits float64 }

// buildGranite makes granite: Llama with numbers that multiply what passes.
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

// multiplied is a layer that multiplies by a number.
type multiplied float64

// Forward returns x times the number.
func (by multiplied) Forward(x *op.Tensor) *op.Tensor { return op.MulScalar(x, float64(by)) }
