// Package pagedtest provides models of every served family for tests.
package pagedtest

import (
	"fmt"
	"testing"

	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// Families returns, for each family that can be served, a configuration that uses its special features.
func Families() map[string]string {
	const window = `, "num_key_value_heads": 2, "sliding_window": 21`
	const latent = `, "kv_lora_rank": 6, "qk_nope_head_dim": 5, "qk_rope_head_dim": 4, "v_head_dim": 3,
		"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 10`
	return map[string]string{
		"llama":   `, "num_key_value_heads": 2`,
		"mistral": window,
		"mixtral": window,
		"qwen2":   window + `, "use_sliding_window": true, "max_window_layers": 1`,
		"qwen3":   window + `, "use_sliding_window": true, "max_window_layers": 1`,
		"qwen3_moe": window + `, "use_sliding_window": true, "num_experts": 6, "num_experts_per_tok": 2,
			"moe_intermediate_size": 10, "norm_topk_prob": true, "mlp_only_layers": [1]`,
		"gemma": `, "num_key_value_heads": 2, "head_dim": 6`,
		"gemma2": window + `, "head_dim": 6, "query_pre_attn_scalar": 5, "attn_logit_softcapping": 2.5,
			"final_logit_softcapping": 4.0`,
		"gemma3_text": window + `, "head_dim": 6, "query_pre_attn_scalar": 5, "sliding_window_pattern": 2,
			"rope_scaling": {"rope_type": "linear", "factor": 2.0}`,
		"ernie4_5": `, "num_key_value_heads": 2, "head_dim": 6, "use_bias": true`,
		"ernie4_5_moe": `, "num_key_value_heads": 2, "use_bias": true, "moe_num_experts": 6, "moe_k": 2,
			"moe_intermediate_size": 10, "moe_num_shared_experts": 2, "moe_layer_interval": 2,
			"moe_layer_start_index": 0`,
		"deepseek_v2": latent + `, "q_lora_rank": null, "topk_method": "group_limited_greedy", "n_group": 3,
			"topk_group": 2, "mlp_bias": true, "routed_scaling_factor": 1.5, "n_shared_experts": 2,
			"first_k_dense_replace": 1`,
		"deepseek_v3": latent + `, "q_lora_rank": 7, "n_group": 2, "topk_group": 1, "attention_bias": true,
			"first_k_dense_replace": 1, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0,
			"mscale_all_dim": 0.7, "original_max_position_embeddings": 8}`,
		"olmo2": `, "num_key_value_heads": 2, "attention_bias": true`,
		"phi3": window + `, "partial_rotary_factor": 0.5, "max_position_embeddings": 800,
			"original_max_position_embeddings": 400,
			"rope_scaling": {"type": "longrope", "short_factor": [1.5], "long_factor": [3.0]}`,
		"starcoder2": window + `, "use_bias": true`,
		"smollm3":    `, "num_key_value_heads": 2, "no_rope_layers": [1, 0]`,
		"gpt2":       "",
		"glm":        `, "num_key_value_heads": 2, "head_dim": 8`,
		"glm4":       `, "num_key_value_heads": 2, "head_dim": 8, "attention_bias": true`,
		"glm4_moe": `, "num_key_value_heads": 2, "head_dim": 8, "n_routed_experts": 6, "num_experts_per_tok": 2,
			"moe_intermediate_size": 10, "n_group": 2, "topk_group": 1, "use_qk_norm": true, "attention_bias": true`,
		"ministral": window + `, "layer_types": ["sliding_attention", "full_attention"]`,
		"olmo3":     window + `, "layer_types": ["sliding_attention", "full_attention"]`,
		"olmoe":     `, "num_key_value_heads": 2, "num_experts": 6, "num_experts_per_tok": 2`,
		"stablelm": `, "num_key_value_heads": 2, "partial_rotary_factor": 0.5, "use_qkv_bias": true,
			"qk_layernorm": true`,
		"olmo":    `, "num_key_value_heads": 2, "clip_qkv": 0.7`,
		"cohere":  `, "num_key_value_heads": 2, "logit_scale": 0.5, "use_qk_norm": true`,
		"cohere2": window + `, "logit_scale": 0.5, "layer_types": ["sliding_attention", "full_attention"]`,
		"granite": `, "num_key_value_heads": 2, "embedding_multiplier": 3.0, "attention_multiplier": 0.4,
			"residual_multiplier": 0.6, "logits_scaling": 2.0`,
		"gpt_neox": `, "rotary_pct": 0.5, "hidden_act": "gelu"`,
		"falcon":   `, "new_decoder_architecture": true, "num_kv_heads": 2, "bias": true`,
		"phi":      `, "num_key_value_heads": 2, "partial_rotary_factor": 0.5, "qk_layernorm": true`,
		"gptj":     `, "rotary_dim": 2`,
		"qwen2_moe": `, "num_key_value_heads": 2, "num_experts": 6, "num_experts_per_tok": 2,
			"moe_intermediate_size": 10, "shared_expert_intermediate_size": 12`,
	}
}

// Model returns a small model of a family, with a vocabulary of 37 and weights large enough that tokens
// differ.
func Model(t testing.TB, family string, c nn.Config) models.Model {
	t.Helper()
	keys := `"hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4`
	switch family {
	case "gpt2", "gptj":
		keys = `"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 512`
	case "falcon":
		keys = `"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4`
	}
	config, err := models.ParseConfig([]byte(fmt.Sprintf(`{"model_type": %q, "vocab_size": 37, %s,
		"initializer_range": 0.5%s}`, family, keys, Families()[family])))
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.New(config, c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
