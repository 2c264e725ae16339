package models

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
)

// buildErnieMoE builds ernie4_5_moe: Llama's layers with a mixture of experts, shared experts, and a
// selection bias.
func buildErnieMoE(f *family, c Config, in *nn.Init) (*decoder, error) {
	b, err := newLlamaBuilder(f, c)
	if err != nil {
		return nil, err
	}
	m := b.model(in, func(in *nn.Init, i int) block {
		out := b.block(in, i).(residual)
		if moe, ok := out.mlp.(*nn.MoE); ok {
			mlp := in.At("mlp")
			moe.Bias = mlp.At("moe_statics").Fixed("e_score_correction_bias", array.Shape{1, c.Experts},
				nn.Constant(0))
			moe.Shared = b.sharedExperts(mlp)
		}
		return out
	})
	if c.AttentionBias {
		m.head.bias = in.At("lm_head").Param("bias", array.Shape{c.Vocab}, nn.Constant(0))
	}
	return m, nil
}

// sharedExperts returns one MLP with the size of all shared experts; nil if there are none.
func (b llamaBuilder) sharedExperts(in *nn.Init) *nn.GatedMLP {
	if b.Mixture.Shared == 0 {
		return nil
	}
	return b.gated(in.At("shared_experts"), b.expertWidth()*b.Mixture.Shared)
}
