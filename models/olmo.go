package models

import "github.com/galley-ml/galley/nn"

// buildOLMo makes olmo2: Llama's parts, normalised after them in place of before, and queries and keys of all
// heads together.
func buildOLMo(f *family, c Config, in *nn.Init) (*decoder, error) {
	b, err := newLlamaBuilder(f, c)
	if err != nil {
		return nil, err
	}
	return b.model(in, func(in *nn.Init, i int) block {
		attention := b.attention(in.At("self_attn"), i)
		attention.QWide = b.norm(in.At("self_attn").At("q_norm"), c.Heads*c.HeadDim)
		attention.KWide = b.norm(in.At("self_attn").At("k_norm"), c.KVHeads*c.HeadDim)
		out := residual{attention: attention, mlp: b.mlp(in.At("mlp"), i)}
		out.attentionPost = b.norm(in.At("post_attention_layernorm"), c.Hidden)
		out.mlpPost = b.norm(in.At("post_feedforward_layernorm"), c.Hidden)
		return out
	}), nil
}
