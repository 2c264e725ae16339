package models

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
)

// buildGPTOSS builds gpt_oss: Llama with a sliding window in every other layer, attention sinks, and experts
// with biases.
func buildGPTOSS(f *family, c Config, in *nn.Init) (*decoder, error) {
	b, err := newLlamaBuilder(f, c)
	if err != nil {
		return nil, err
	}
	return b.model(in, func(in *nn.Init, i int) block {
		at := in.At("self_attn")
		attention := b.attention(at, i)
		attention.Heads.Sinks = at.Param("sinks", array.Shape{c.Heads}, nn.Normal(c.InitStd))
		out := residual{attention: attention}
		out.mlp = nn.NewBiasedMoE(in.At("mlp"), nn.MoEConfig{Hidden: c.Hidden, Intermediate: c.Intermediate,
			Experts: c.Experts, PerToken: c.ExpertsPerToken})
		out.attentionNorm = b.norm(in.At("input_layernorm"), c.Hidden)
		out.mlpNorm = b.norm(in.At("post_attention_layernorm"), c.Hidden)
		return out
	}), nil
}
