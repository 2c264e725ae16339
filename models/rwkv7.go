package models

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// buildRWKV7 builds rwkv7, as in flash-linear-attention.
func buildRWKV7(_ *family, c Config, in *nn.Init) (*decoder, error) {
	base := in.At("model")
	norm := func(in *nn.Init) *nn.LayerNorm { return nn.NewLayerNorm(in, c.Hidden, c.NormEps) }
	tokens := base.At("embeddings").WithWeights(nn.Uniform(1e-4))
	m := &decoder{stem: stem{tokens: nn.NewEmbedding(tokens, c.Vocab, c.Hidden)}}
	for i := range c.Layers {
		layer := base.At("layers").Index(i)
		if i == 0 && c.Recurrence.NormFirst {
			m.stem.norm = norm(layer.At("pre_norm"))
		}
		m.blocks = append(m.blocks, rwkv7Layer(c, i, layer, norm))
	}
	m.norm = norm(base.At("norm"))
	if !c.Tied {
		m.head.linear = nn.NewLinearNoBias(in.At("lm_head"), c.Hidden, c.Vocab)
	}
	m.warp = c.Recurrence.Warp
	return m, nil
}

func rwkv7Layer(c Config, i int, in *nn.Init, norm func(in *nn.Init) *nn.LayerNorm) rwkv7Block {
	r := c.Recurrence
	config := nn.RWKV7Config{
		Hidden: c.Hidden, Heads: c.Heads, Dim: c.HeadDim, Eps: c.NormEps, Layer: i, Layers: c.Layers,
		DecayRank: r.Ranks.Decay, RateRank: r.Ranks.Rate, ValueRank: r.Ranks.Value, GateRank: r.Ranks.Gate,
		Chunk: r.Chunk,
	}
	b := rwkv7Block{timeNorm: norm(in.At("attn_norm")), hidden: c.Hidden}
	b.time = nn.NewTimeMix7(in.At("attn"), config)
	b.channelNorm = norm(in.At("ffn_norm"))
	b.channel = nn.NewChannelMix7(in.At("ffn"), config, c.Intermediate)
	return b
}

// rwkv7Block is one layer: time mixing, then channel mixing.
type rwkv7Block struct {
	timeNorm, channelNorm *nn.LayerNorm
	time                  *nn.TimeMix7
	channel               *nn.ChannelMix7
	hidden                int
}

// forward applies the layer without the values of the first one.
func (b rwkv7Block) forward(name string, x *op.Tensor, c *nn.KVCache) *op.Tensor {
	x, _ = b.carry(name, x, nil, c)
	return x
}

// carry passes the values of the first layer on to all later ones. It keeps the last token of both parts as K
// of c, and the state of the first as V.
func (b rwkv7Block) carry(name string, x, values *op.Tensor, c *nn.KVCache) (*op.Tensor, *op.Tensor) {
	x = op.Mark(x, name)
	var beforeTime, beforeChannel, state *op.Tensor
	if c != nil && c.K != nil {
		beforeTime, beforeChannel, state = op.Narrow(c.K, 1, 0, 1), op.Narrow(c.K, 1, 1, 2), c.V
	}
	first := b.timeNorm.Forward(x)
	y, values, next := b.time.Forward(first, values, beforeTime, state)
	x = op.Mark(op.Add(x, y), nn.MidMark(name))
	second := b.channelNorm.Forward(x)
	if c != nil && second.Err() == nil && next.Err() == nil {
		n := x.Dim(1)
		c.K = op.Concat([]*op.Tensor{op.Narrow(first, 1, n-1, n), op.Narrow(second, 1, n-1, n)}, 1)
		c.V = next
	}
	return op.Add(x, b.channel.Forward(second, beforeChannel)), values
}

func (b rwkv7Block) over(nn.Sequence) block { return b }
func (b rwkv7Block) shared(Layout) block    { return b }

func (b rwkv7Block) cache(batch, _ int) [2]array.Shape {
	k := b.time.Config
	return [2]array.Shape{{batch, 2, b.hidden}, {batch, k.Heads, k.Dim, k.Dim}}
}
