package models

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// livelyKeys is, for each family, a configuration that uses what sets it apart, with first weights so large
// that a small model's choices differ from token to token.
func livelyKeys() map[string]string {
	const window = `, "num_key_value_heads": 2, "sliding_window": 5`
	const latent = `, "kv_lora_rank": 6, "qk_nope_head_dim": 5, "qk_rope_head_dim": 4, "v_head_dim": 3,
		"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 10`
	return map[string]string{
		"gpt2":    `, "n_positions": 32`,
		"gptj":    `, "rotary_dim": 2`,
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
		"phi3": window + `, "partial_rotary_factor": 0.5, "max_position_embeddings": 80, 
			"original_max_position_embeddings": 40,
			"rope_scaling": {"type": "longrope", "short_factor": [1.5], "long_factor": [3.0]}`,
		"starcoder2": window + `, "use_bias": true`,
		"bert":       ``,
		"roberta":    `, "pad_token_id": 1, "max_position_embeddings": 64`,
		"qwen2_moe": `, "num_key_value_heads": 2, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 10,
			"shared_expert_intermediate_size": 14, "mlp_only_layers": [1]`,
		"granite": `, "num_key_value_heads": 2, "embedding_multiplier": 3.0, "attention_multiplier": 0.4,
			"residual_multiplier": 0.7, "logits_scaling": 2.0, "mlp_bias": true`,
		"cohere":   `, "num_key_value_heads": 2, "logit_scale": 0.5`,
		"gpt_neox": `, "rotary_pct": 0.5`,
		"phi":      `, "num_key_value_heads": 2, "partial_rotary_factor": 0.5`,
		"olmo":     `, "num_key_value_heads": 2, "clip_qkv": 1.5`,
		"smollm3":  `, "num_key_value_heads": 2, "no_rope_layers": [1, 0, 1]`,
		"rwkv":     `, "attention_hidden_size": 12`,
		"cohere2": window + `, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
			"logit_scale": 0.5`,
		"falcon":    `, "new_decoder_architecture": true, "num_kv_heads": 2, "bias": true`,
		"glm":       `, "num_key_value_heads": 2, "head_dim": 8`,
		"glm4":      `, "num_key_value_heads": 2, "head_dim": 8, "attention_bias": true`,
		"ministral": window + `, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]`,
		"olmo3":     window + `, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]`,
		"olmoe":     `, "num_key_value_heads": 2, "num_experts": 6, "num_experts_per_tok": 2, "clip_qkv": 2.0`,
		"glm4_moe": `, "num_key_value_heads": 2, "head_dim": 8, "n_routed_experts": 6, "num_experts_per_tok": 2,
			"moe_intermediate_size": 10, "n_group": 2, "topk_group": 1, "use_qk_norm": true, "attention_bias": true`,
		"gpt_oss": window + `, "head_dim": 6, "num_local_experts": 6, "num_experts_per_tok": 2`,
		"stablelm": `, "num_key_value_heads": 2, "partial_rotary_factor": 0.5, "use_qkv_bias": true,
			"qk_layernorm": true, "use_parallel_residual": true`,
		"distilbert": `, "sinusoidal_pos_embds": true`,
		"electra":    `, "embedding_size": 10`,
		"mamba":      `, "state_size": 5, "time_step_rank": 3, "use_bias": true`,
		"rwkv7": `, "head_dim": 8, "decay_low_rank_dim": 3, "gate_low_rank_dim": 4, "a_low_rank_dim": 5,
			"v_low_rank_dim": 2, "use_l2warp": true`,
		"vit": `, "image_size": [6, 4], "patch_size": 2, "num_labels": 3`,
		"mamba2": `, "state_size": 5, "n_groups": 2, "head_dim": 8, "num_heads": 4, "chunk_size": 4,
			"use_bias": true, "time_step_limit": [0.001, 2.0]`,
	}
}

// decoders returns the families that continue a sequence.
func decoders() (names []string) {
	for _, f := range families() {
		if !f.encoder {
			names = append(names, f.name)
		}
	}
	return names
}

func livelyModel(t *testing.T, family string, s op.Scope) Model {
	t.Helper()
	more, ok := livelyKeys()[family]
	if !ok {
		t.Fatalf("family %s: no configuration to test it with", family)
	}
	return smallModel(t, family, `, "initializer_range": 0.5`+more, nn.Config{Scope: s, Seed: 5})
}

// TestLengthDependentRope: what a sequence's length decides is decided by the whole of it, cached tokens
// included.
func TestLengthDependentRope(t *testing.T) {
	long := Rope{Type: "longrope", Theta: 100, OriginalPositions: 9, Positions: 36, Short: []float64{1, 2},
		Long: []float64{3, 4}}
	dynamic := Rope{Type: "dynamic", Theta: 100, Factor: 2, Positions: 9}
	for _, test := range []struct {
		rope        Rope
		length      int
		want        float64 // of the second pair of two
		description string
	}{
		{long, 9, 0.1 / 2, "short"}, {long, 10, 0.1 / 4, "long"},
		{dynamic, 9, 0.1, "as trained"}, {dynamic, 18, 1 / math.Sqrt(100*math.Pow(3, 2)), "stretched"},
	} {
		if got := test.rope.Frequencies(4, test.length)[1]; math.Abs(got-test.want) > 1e-12 {
			t.Errorf("%s, %s: got %v, want %v", test.rope.Type, test.description, got, test.want)
		}
	}
	if got, want := long.attentionFactor(), math.Sqrt(1+math.Log(4)/math.Log(9)); math.Abs(got-want) > 1e-12 {
		t.Errorf("longrope: attention factor %v, want %v", got, want)
	}
}

// TestEncoderContinuesNothing: generation with one is an error that says so.
func TestEncoderContinuesNothing(t *testing.T) {
	m := livelyModel(t, "bert", newSession(t))
	for _, err := range Generate(m, []int32{1}, GenerateConfig{Tokens: 1}) {
		if err == nil || !strings.Contains(err.Error(), "bert sees whole sequences") {
			t.Errorf("got %v", err)
		}
	}
}

// TestClassify compares the three losses of a head that classifies with their definitions.
func TestClassify(t *testing.T) {
	s := newSession(t)
	for _, labels := range []int{1, 3} {
		more := fmt.Sprintf(`, "architectures": ["BertForSequenceClassification"], "num_labels": %d`, labels)
		m := smallModel(t, "bert", more, nn.Config{Scope: s, Seed: 2})
		ids := tokens(s, 3, 1, 4, 1, 5)
		logits := read(t, m.Forward(ids)).Float64s()
		if len(logits) != labels {
			t.Fatalf("got %d logits, want %d", len(logits), labels)
		}
		given := make([]float32, labels)
		squared, each, sum := 0.0, 0.0, 0.0
		for i, x := range logits {
			given[i] = float32(i) / 2
			squared += (x - float64(given[i])) * (x - float64(given[i]))
			each += (math.Log1p(math.Exp(x)) - x*float64(given[i])) / float64(labels)
			sum += math.Exp(x)
		}
		want := map[bool]float64{true: squared, false: each}[labels == 1]
		numbers := s.Tensor(array.FromSlice(given, 1, labels))
		if got := read(t, m.Loss(ids, numbers)).At(0); math.Abs(got-want) > tolerance {
			t.Errorf("%d labels, numbers: got %v, want %v", labels, got, want)
		}
		if labels > 1 {
			got := read(t, m.Loss(ids, s.Tensor(array.FromSlice([]int32{2}, 1)))).At(0)
			if want := math.Log(sum) - logits[2]; math.Abs(got-want) > tolerance {
				t.Errorf("classes: got %v, want %v", got, want)
			}
		}
	}
}
