package models

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// parallel is one layer of a transformer with parallel blocks: attention and MLP both read the layer's input,
// and their outputs are added together. [Wang and Komatsuzaki 2021]
type parallel struct {
	norm          layer
	attention     nn.Attender
	attentionPost layer
	// mlpNorm is a separate norm for the MLP; nil for none.
	mlpNorm layer
	mlp     layer
	mlpPost layer
	// post follows the sum of both; nil for none.
	post layer
}

func (b parallel) forward(name string, x *op.Tensor, c *nn.KVCache) *op.Tensor {
	x = op.Mark(x, name)
	h := through(b.norm, x)
	y := through(b.attentionPost, b.attention.Forward(h, c))
	if b.mlpNorm != nil {
		h = b.mlpNorm.Forward(x)
	}
	z := through(b.mlpPost, b.mlp.Forward(h))
	return op.Add(x, through(b.post, op.Add(y, z)))
}

func (b parallel) over(s nn.Sequence) block {
	b.attention, b.attentionPost, b.mlpPost = b.attention.Over(s), over(b.attentionPost, s), over(b.mlpPost, s)
	b.post = over(b.post, s)
	return b
}

func (b parallel) shared(Layout) block { return b }

func (b parallel) cache(batch, limit int) [2]array.Shape { return b.attention.Cache(batch, limit) }
