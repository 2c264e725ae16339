package models

import "github.com/galley-ml/galley/nn"

// buildOLMo builds olmo2 and olmo3: Llama's parts with post-norm, and norms of queries and keys over all
// heads.
func buildOLMo(f *family, c Config, in *nn.Init) (*decoder, error) {
	b, err := newLlamaBuilder(f, c)
	if err != nil {
		return nil, err
	}
	return b.model(in, func(in *nn.Init, i int) block {
		out := residual{attention: b.wideNormed(in.At("self_attn"), i), mlp: b.mlp(in.At("mlp"), i)}
		out.attentionPost = b.norm(in.At("post_attention_layernorm"), c.Hidden)
		out.mlpPost = b.norm(in.At("post_feedforward_layernorm"), c.Hidden)
		return out
	}), nil
}

// buildOLMoE builds olmoe: Llama's blocks with olmo2's attention, clamped queries, keys and values, and a
// mixture of experts.
func buildOLMoE(f *family, c Config, in *nn.Init) (*decoder, error) {
	b, err := newLlamaBuilder(f, c)
	if err != nil {
		return nil, err
	}
	return b.model(in, func(in *nn.Init, i int) block {
		attention := b.wideNormed(in.At("self_attn"), i)
		attention.Bound = c.QKVBound
		out := residual{attention: attention, mlp: b.mlp(in.At("mlp"), i)}
		out.attentionNorm = b.norm(in.At("input_layernorm"), c.Hidden)
		out.mlpNorm = b.norm(in.At("post_attention_layernorm"), c.Hidden)
		return out
	}), nil
}

// wideNormed returns attention with norms of queries and keys over all heads.
func (b llamaBuilder) wideNormed(in *nn.Init, i int) *nn.Attention {
	a := b.attention(in, i)
	a.QWide = b.norm(in.At("q_norm"), b.Heads*b.HeadDim)
	a.KWide = b.norm(in.At("k_norm"), b.KVHeads*b.HeadDim)
	return a
}
