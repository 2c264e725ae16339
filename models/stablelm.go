package models

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
)

// buildStableLM builds stablelm: Llama with LayerNorm, optional biases of queries, keys and values, rotary
// positions in a part of each head, and blocks that may be parallel.
func buildStableLM(f *family, c Config, in *nn.Init) (*decoder, error) {
	b, err := newLlamaBuilder(f, c)
	if err != nil {
		return nil, err
	}
	b = b.attendingAs(false)
	base := in.At("model")
	m := &decoder{}
	m.stem.tokens = c.tokens(base.At("embed_tokens"))
	for i := range c.Layers {
		m.blocks = append(m.blocks, b.stableLMBlock(base.At("layers").Index(i), i))
	}
	m.norm = nn.NewLayerNorm(base.At("norm"), c.Hidden, c.NormEps)
	if !c.Tied {
		m.head.linear = nn.NewLinearNoBias(in.At("lm_head"), c.Hidden, c.Vocab)
	}
	return m, nil
}

func (b llamaBuilder) stableLMBlock(in *nn.Init, i int) block {
	attention := b.attention(in.At("self_attn"), i)
	if b.QKLayerNorm {
		attention.QHeads = b.normPerHead(in.At("self_attn").At("q_layernorm"), b.Heads)
		attention.KHeads = b.normPerHead(in.At("self_attn").At("k_layernorm"), b.KVHeads)
	}
	mlp := b.mlp(in.At("mlp"), i)
	norm := nn.NewLayerNorm(in.At("input_layernorm"), b.Hidden, b.NormEps)
	drop := dropout(in.At("dropout"), b.Dropout.Residual)
	if !b.SequentialBlocks {
		return parallel{norm: norm, attention: attention, mlp: mlp, mlpPost: drop}
	}
	after := nn.NewLayerNorm(in.At("post_attention_layernorm"), b.Hidden, b.NormEps)
	return residual{norm, attention, nil, after, mlp, drop}
}

// normPerHead makes a norm with a separate weight for each head.
func (b llamaBuilder) normPerHead(in *nn.Init, heads int) *nn.HeadNorm {
	n := &nn.HeadNorm{Eps: b.NormEps}
	for i := range heads {
		n.Weights = append(n.Weights,
			in.At("norms").Index(i).Param("weight", array.Shape{b.HeadDim}, nn.Constant(1)))
	}
	return n
}
