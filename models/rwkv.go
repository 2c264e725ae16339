package models

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// rwkvChunk is the number of positions of a scan that are computed at once.
const rwkvChunk = 64

// buildRWKV builds rwkv, the fourth version, which is the one in transformers.
func buildRWKV(_ *family, c Config, in *nn.Init) (*decoder, error) {
	base := in.At("rwkv")
	norm := func(in *nn.Init) *nn.LayerNorm { return nn.NewLayerNorm(in, c.Hidden, c.NormEps) }
	m := &decoder{stem: stem{tokens: nn.NewEmbedding(base.At("embeddings"), c.Vocab, c.Hidden)}}
	for i := range c.Layers {
		block := base.At("blocks").Index(i)
		if i == 0 {
			m.stem.norm = norm(block.At("pre_ln"))
		}
		b := rwkvBlock{timeNorm: norm(block.At("ln1")), channelNorm: norm(block.At("ln2")), hidden: c.Hidden,
			width: c.Heads}
		b.time = rwkvTime(c, block.At("attention"))
		b.channel = rwkvChannel(c, block.At("feed_forward"))
		m.blocks = append(m.blocks, b)
	}
	m.norm = norm(base.At("ln_out"))
	if !c.Tied {
		m.head.linear = nn.NewLinearNoBias(in.At("head"), c.Hidden, c.Vocab)
	}
	return m, nil
}

func rwkvTime(c Config, in *nn.Init) *nn.TimeMix {
	mix := func(name string) *nn.Param {
		return in.Param(name, array.Shape{1, 1, c.Hidden},
			nn.Constant(0.5))
	}
	return &nn.TimeMix{
		Decay: in.Param("time_decay", array.Shape{c.Heads}, nn.Constant(-1)), First: in.Param("time_first",
			array.Shape{c.Heads}, nn.Constant(1)),
		MixKey: mix("time_mix_key"), MixValue: mix("time_mix_value"), MixGate: mix("time_mix_receptance"),
		Key: nn.NewLinearNoBias(in.At("key"), c.Hidden, c.Heads), Value: nn.NewLinearNoBias(in.At("value"),
			c.Hidden, c.Heads),
		Gate:  nn.NewLinearNoBias(in.At("receptance"), c.Hidden, c.Heads),
		Out:   nn.NewLinearNoBias(in.At("output"), c.Heads, c.Hidden),
		Chunk: rwkvChunk,
	}
}

func rwkvChannel(c Config, in *nn.Init) *nn.ChannelMix {
	mix := func(name string) *nn.Param {
		return in.Param(name, array.Shape{1, 1, c.Hidden},
			nn.Constant(0.5))
	}
	return &nn.ChannelMix{
		MixKey: mix("time_mix_key"), MixGate: mix("time_mix_receptance"),
		Key:   nn.NewLinearNoBias(in.At("key"), c.Hidden, c.Intermediate),
		Gate:  nn.NewLinearNoBias(in.At("receptance"), c.Hidden, c.Hidden),
		Value: nn.NewLinearNoBias(in.At("value"), c.Intermediate, c.Hidden),
	}
}

// rwkvBlock is one layer: time mixing, then channel mixing.
type rwkvBlock struct {
	timeNorm, channelNorm *nn.LayerNorm
	time                  *nn.TimeMix
	channel               *nn.ChannelMix
	hidden, width         int
}

// forward keeps the last token of both parts as K of c, and the state of the first as V.
func (b rwkvBlock) forward(name string, x *op.Tensor, c *nn.KVCache) *op.Tensor {
	x = op.Mark(x, name)
	var beforeTime, beforeChannel, state *op.Tensor
	if c != nil && c.K != nil {
		beforeTime, beforeChannel, state = op.Narrow(c.K, 1, 0, 1), op.Narrow(c.K, 1, 1, 2), c.V
	}
	first := b.timeNorm.Forward(x)
	y, next := b.time.Forward(first, beforeTime, state)
	x = op.Mark(op.Add(x, y), nn.MidMark(name))
	second := b.channelNorm.Forward(x)
	if c != nil && second.Err() == nil && next.Err() == nil {
		n := x.Dim(1)
		c.K = op.Concat([]*op.Tensor{op.Narrow(first, 1, n-1, n), op.Narrow(second, 1, n-1, n)}, 1)
		c.V = next
	}
	return op.Add(x, b.channel.Forward(second, beforeChannel))
}

func (b rwkvBlock) over(nn.Sequence) block { return b }
func (b rwkvBlock) shared(Layout) block    { return b }

func (b rwkvBlock) cache(batch, _ int) [2]array.Shape {
	return [2]array.Shape{{batch, 2, b.hidden}, {batch, b.width, 3}}
}
