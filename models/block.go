package models

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

type layer interface {
	Forward(x *op.Tensor) *op.Tensor
}

// block is one layer of a model, from the hidden states that enter it to those that leave it.
type block interface {
	// forward marks the hidden states at the start of the layer, under its name, and within it.
	forward(name string, x *op.Tensor, c *nn.KVCache) *op.Tensor
	// over returns the same layer for sequences of this layout.
	over(s nn.Sequence) block
	// shared returns the same layer with its experts in a layout.
	shared(l Layout) block
	// cache returns the shapes of the layer's key-value cache, for up to limit tokens.
	cache(batch, limit int) [2]array.Shape
}

// carrier is a block that passes a second tensor to the next block beside the hidden states; the first gets
// nil.
type carrier interface {
	carry(name string, x, carried *op.Tensor, c *nn.KVCache) (*op.Tensor, *op.Tensor)
}

// residual is one layer of a pre-norm transformer. Norms that are nil leave their operand unchanged.
type residual struct {
	attentionNorm layer
	attention     nn.Attender
	attentionPost layer
	mlpNorm       layer
	mlp           layer
	mlpPost       layer
}

func (b residual) forward(name string, x *op.Tensor, c *nn.KVCache) *op.Tensor {
	x = op.Mark(x, name)
	y := through(b.attentionPost, b.attention.Forward(through(b.attentionNorm, x), c))
	x = op.Mark(op.Add(x, y), nn.MidMark(name))
	return op.Add(x, through(b.mlpPost, b.mlp.Forward(through(b.mlpNorm, x))))
}

func (b residual) over(s nn.Sequence) block {
	b.attention, b.attentionPost, b.mlpPost = b.attention.Over(s), over(b.attentionPost, s), over(b.mlpPost, s)
	return b
}

func (b residual) cache(batch, limit int) [2]array.Shape { return b.attention.Cache(batch, limit) }

func (b residual) shared(l Layout) block {
	if e, ok := b.mlp.(*nn.MoE); ok && l.Experts > 0 {
		e := *e
		e.Config.Fused = true
		if l.Capacity > 0 {
			e.Config.Capacity = l.Capacity
		}
		b.mlp = &e
	}
	return b
}

// dropout returns a dropout layer, or nil at rate 0.
func dropout(in *nn.Init, rate float64) layer {
	if rate == 0 {
		return nil
	}
	return nn.NewDropout(in, rate)
}

// over returns a layer for sequences of this layout. It matters for dropout only, which drops the same
// elements in any layout.
func over(l layer, s nn.Sequence) layer {
	if d, ok := l.(*nn.Dropout); ok {
		return d.Over(s)
	}
	return l
}

// attentionDropout returns the dropout of attention weights, or nil for none.
func attentionDropout(in *nn.Init, c Config) *nn.Dropout {
	if c.Dropout.Attention == 0 {
		return nil
	}
	return nn.NewDropout(in.At("weights"), c.Dropout.Attention)
}

// through applies a layer, which may be nil, to x.
func through(l layer, x *op.Tensor) *op.Tensor {
	if l == nil {
		return x
	}
	return l.Forward(x)
}
