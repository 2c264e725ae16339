package models

import "github.com/galley-ml/galley/nn"

// buildQwen2MoE builds qwen2_moe: qwen2 with a mixture of experts and a gated shared MLP.
func buildQwen2MoE(f *family, c Config, in *nn.Init) (*decoder, error) {
	b, err := newLlamaBuilder(f, c)
	if err != nil {
		return nil, err
	}
	b = b.attendingAs(false)
	return b.model(in, func(in *nn.Init, i int) block {
		out := b.block(in, i).(residual)
		if moe, ok := out.mlp.(*nn.MoE); ok {
			mlp := in.At("mlp")
			moe.Shared = b.gated(mlp.At("shared_expert"), c.Mixture.SharedWidth)
			moe.SharedGate = nn.NewLinearNoBias(mlp.At("shared_expert_gate"), c.Hidden, 1)
		}
		return out
	}), nil
}
