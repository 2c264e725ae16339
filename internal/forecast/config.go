package forecast

import (
	"encoding/json"
	"fmt"

	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/models"
)

// ConfigOf returns a model config for a shape that the planner knows only by its sizes, such as a preset: of
// the family that has such layers.
func ConfigOf(m plan.Model) (models.Config, error) {
	family, keys := familyOf(m)
	if family == "" {
		return models.Config{}, fmt.Errorf("model %s: no family of language models has its shape: give a "+
			"config.json "+
			"with --model", m.Name)
	}
	keys["model_type"], keys["vocab_size"], keys["tie_word_embeddings"] = family, m.Vocab, m.Tied
	text, err := json.Marshal(keys)
	if err != nil {
		return models.Config{}, err
	}
	c, err := models.ParseConfig(text)
	if err != nil {
		return c, fmt.Errorf("model %s as %s: %w", m.Name, family, err)
	}
	back, err := Shape(c)
	if err == nil && sameShape(m, back) != "" {
		err = fmt.Errorf("model %s as %s: %s", m.Name, family, sameShape(m, back))
	}
	return c, err
}

// familyOf returns the family with a shape's layers, and its sizes as fields of a config.json.
func familyOf(m plan.Model) (string, map[string]any) {
	keys := map[string]any{"num_hidden_layers": m.Layers, "hidden_size": m.Hidden,
		"num_attention_heads": m.Heads, "num_key_value_heads": orElse(m.KVHeads, m.Heads),
		"intermediate_size": m.FFN}
	if m.HeadDim > 0 {
		keys["head_dim"] = m.HeadDim
	}
	x := m.Experts
	switch {
	case m.Encoder || m.Scans():
		return "", nil
	case m.MLA():
		l := m.Latent
		for name, n := range map[string]int{"q_lora_rank": l.QRank, "kv_lora_rank": l.KVRank,
			"qk_nope_head_dim": l.Nope, "qk_rope_head_dim": l.Rope, "v_head_dim": l.V, "n_routed_experts": x.Count,
			"num_experts_per_tok": x.TopK, "moe_intermediate_size": x.FFN,
			"n_shared_experts":      x.Shared / max(1, x.FFN),
			"first_k_dense_replace": x.Dense, "n_group": 1, "topk_group": 1} {
			keys[name] = n
		}
		return "deepseek_v3", keys
	case m.MoE() && m.QKNorm > 0:
		keys["num_experts"], keys["num_experts_per_tok"], keys["moe_intermediate_size"] = x.Count, x.TopK, x.FFN
		return "qwen3_moe", keys
	case m.QKNorm > 0:
		return "qwen3", keys
	case m.MoE():
		keys["num_local_experts"], keys["num_experts_per_tok"] = x.Count, x.TopK
		return "mixtral", keys
	case m.LayerNorm:
		return "gpt2", map[string]any{"n_layer": m.Layers, "n_embd": m.Hidden, "n_head": m.Heads, "n_inner": m.FFN,
			"n_positions": m.Positions}
	case m.QKVBias:
		return "qwen2", keys
	}
	return "llama", keys
}
