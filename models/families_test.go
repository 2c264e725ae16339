package models

import (
	"testing"

	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// livelyKeys is, for each family, a configuration that uses what sets it apart, with first weights so large that a small
// model's choices differ from token to token.
func livelyKeys() map[string]string {
	const window = `, "num_key_value_heads": 2, "sliding_window": 5`
	return map[string]string{
		"gpt2":    `, "n_positions": 32`,
		"llama":   `, "num_key_value_heads": 2`,
		"mistral": window,
		"mixtral": window,
		"qwen2":   window + `, "use_sliding_window": true, "max_window_layers": 1`,
		"qwen3":   window + `, "use_sliding_window": true, "max_window_layers": 1`,
		"qwen3_moe": window + `, "use_sliding_window": true, "num_experts": 6, "num_experts_per_tok": 2,
			"moe_intermediate_size": 10, "norm_topk_prob": true, "mlp_only_layers": [1]`,
		"gemma":  `, "num_key_value_heads": 2, "head_dim": 6`,
		"gemma2": window + `, "head_dim": 6, "query_pre_attn_scalar": 5, "attn_logit_softcapping": 2.5, "final_logit_softcapping": 4.0`,
		"gemma3_text": window + `, "head_dim": 6, "query_pre_attn_scalar": 5, "sliding_window_pattern": 2,
			"rope_scaling": {"rope_type": "linear", "factor": 2.0}`,
	}
}

func livelyModel(t *testing.T, family string, s op.Scope) Model {
	t.Helper()
	more, ok := livelyKeys()[family]
	if !ok {
		t.Fatalf("family %s: no configuration to test it with", family)
	}
	return smallModel(t, family, `, "initializer_range": 0.5`+more, nn.Config{Scope: s, Seed: 5})
}
