package forecast

import (
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// shapes are configurations of every family, with what it alone has.
var shapes = map[string]string{
	"gpt2":    `"vocab_size": 96, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 32`,
	"gptj":    `"vocab_size": 96, "n_embd": 64, "n_layer": 3, "n_head": 4, "rotary_dim": 8`,
	"llama":   usualShape + `, "num_key_value_heads": 2`,
	"mistral": usualShape + `, "num_key_value_heads": 2, "sliding_window": 16`,
	"mixtral": usualShape + `, "num_key_value_heads": 2, "num_local_experts": 4`,
	"qwen2":   usualShape + `, "num_key_value_heads": 2, "use_sliding_window": true, "sliding_window": 16, "max_window_layers": 1`,
	"qwen3":   usualShape + `, "num_key_value_heads": 2, "head_dim": 32`,
	"qwen3_moe": usualShape + `, "num_key_value_heads": 2, "head_dim": 32, "num_experts": 8, "num_experts_per_tok": 2,
		"moe_intermediate_size": 48, "mlp_only_layers": [1]`,
	"gemma":       usualShape + `, "num_key_value_heads": 2, "head_dim": 32`,
	"gemma2":      usualShape + `, "num_key_value_heads": 2, "head_dim": 32, "sliding_window": 16`,
	"gemma3_text": usualShape + `, "num_key_value_heads": 2, "head_dim": 32, "sliding_window": 16, "sliding_window_pattern": 3`,
	"ernie4_5":    usualShape + `, "num_key_value_heads": 2, "use_bias": true`,
	"ernie4_5_moe": usualShape + `, "num_key_value_heads": 2, "moe_num_experts": 8, "moe_k": 2,
		"moe_intermediate_size": 48, "moe_num_shared_experts": 2, "moe_layer_start_index": 1`,
	"deepseek_v2": usualShape + latentShape + `, "q_lora_rank": null`,
	"deepseek_v3": usualShape + latentShape + `, "q_lora_rank": 24`,
	"olmo2":       usualShape + `, "num_key_value_heads": 2`,
	"phi3":        usualShape + `, "num_key_value_heads": 2, "sliding_window": 16`,
	"cohere":      usualShape + `, "num_key_value_heads": 2`,
	"gpt_neox":    usualShape,
	"granite":     usualShape + `, "num_key_value_heads": 2, "mlp_bias": true`,
	"olmo":        usualShape + `, "num_key_value_heads": 2`,
	"phi":         usualShape + `, "num_key_value_heads": 2`,
	"qwen2_moe": usualShape + `, "num_key_value_heads": 2, "num_experts": 8, "num_experts_per_tok": 2,
		"moe_intermediate_size": 48, "shared_expert_intermediate_size": 80`,
	"roberta":   usualShape + `, "max_position_embeddings": 32`,
	"cohere2":   usualShape + `, "num_key_value_heads": 2, "sliding_window": 16`,
	"glm":       usualShape + `, "num_key_value_heads": 2, "head_dim": 16`,
	"glm4":      usualShape + `, "num_key_value_heads": 2, "head_dim": 16, "attention_bias": true`,
	"ministral": usualShape + `, "num_key_value_heads": 2, "sliding_window": 16`,
	"olmo3":     usualShape + `, "num_key_value_heads": 2, "sliding_window": 16`,
	"olmoe":     usualShape + `, "num_key_value_heads": 2, "num_experts": 8, "num_experts_per_tok": 2`,
	"glm4_moe": usualShape + `, "num_key_value_heads": 2, "head_dim": 16, "use_qk_norm": true,
		"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "attention_bias": true`,
	"gpt_oss": usualShape + `, "num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 8,
		"num_experts_per_tok": 2`,
	"stablelm": usualShape + `, "num_key_value_heads": 2, "use_qkv_bias": true, "qk_layernorm": true,
		"use_parallel_residual": true`,
	"falcon": `"vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
		"num_kv_heads": 2, "new_decoder_architecture": true, "bias": true`,
	"distilbert": `"vocab_size": 96, "dim": 64, "hidden_dim": 160, "n_layers": 3, "n_heads": 4`,
	"electra":    usualShape + `, "max_position_embeddings": 32, "embedding_size": 24`,
	"mamba":      `"vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 3, "use_bias": true`,
	"smollm3":    usualShape + `, "num_key_value_heads": 2`,
	"starcoder2": usualShape + `, "num_key_value_heads": 2, "use_bias": true`,
	"bert":       usualShape + `, "max_position_embeddings": 32`,
	"vit": `"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 4,
		"image_size": 24, "patch_size": 4, "id2label": {"0": "a", "1": "b", "2": "c"}`,
	"mamba2": `"vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 3, "state_size": 16, "n_groups": 2,
		"head_dim": 16, "num_heads": 8, "expand": 2`,
	"rwkv": `"vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 3, "attention_hidden_size": 64`,
	"rwkv7": `"vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 3, "head_dim": 16, "decay_low_rank_dim": 8,
		"gate_low_rank_dim": 8, "a_low_rank_dim": 8, "v_low_rank_dim": 8`,
}

const (
	usualShape = `"vocab_size": 96, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3,
		"num_attention_heads": 4`
	latentShape = `, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12,
		"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "n_shared_experts": 2,
		"first_k_dense_replace": 1, "n_group": 1, "topk_group": 1`
)

// TestShapeParams holds the planner's count of parameters to those that a model of each family has.
func TestShapeParams(t *testing.T) {
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	for _, family := range models.Families() {
		text := []byte(`{"model_type": "` + family + `", ` + shapes[family] + `}`)
		c, err := models.ParseConfig(text)
		if err != nil {
			t.Errorf("%s: %v", family, err)
			continue
		}
		m, err := models.New(c, nn.Config{Scope: d.NewSession(), DType: array.F32, Seed: 1})
		if err != nil {
			t.Errorf("%s: %v", family, err)
			continue
		}
		want := 0
		for _, p := range m.Params() {
			want += p.Type.Shape.Len()
		}
		shape, err := ReadModel(family, text)
		if err != nil {
			t.Errorf("%s: %v", family, err)
			continue
		}
		if got := shape.Params(); got != float64(want) {
			t.Errorf("%s: %.0f parameters, want %d", family, got, want)
		}
	}
}
