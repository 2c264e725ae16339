package models

import (
	"fmt"
	"slices"
)

func qwen2MoEFamilies() []family {
	keys := llamaKeys()
	keys.experts = "num_experts"
	return []family{like(family{
		name: "qwen2_moe", architecture: "Qwen2MoeForCausalLM", eps: 1e-6, theta: 1e4, positions: 32768,
		experts: true, pad: noPad, keys: keys, read: readQwen2MoE, write: writeQwen2MoE, fill: fillQwen2MoE,
		check: checkQwen2MoE, build: buildQwen2MoE,
	})}
}

func readQwen2MoE(r *reader, f *family, c *Config) {
	r.transformer(f, c)
	r.plainWindow(c)
	c.AttentionBias = r.bool("qkv_bias", true)
	experts := r.count("num_local_experts", 60) // the two names of one size
	c.Experts = r.count("num_experts", experts)
	c.ExpertsPerToken = r.count("num_experts_per_tok", 4)
	c.Mixture.Width = r.count("moe_intermediate_size", 1408)
	c.Mixture.SharedWidth = r.count("shared_expert_intermediate_size", 5632)
	c.Mixture.Routing.RawWeights = !r.bool("norm_topk_prob", false)
	r.sparseLayers(c)
}

// plainWindow refuses sliding windows, because versions of transformers disagree on which layers have one.
func (r *reader) plainWindow(c *Config) {
	if r.bool("use_sliding_window", false) {
		r.fail("use_sliding_window", "not supported: got true, want false")
	}
	r.take("sliding_window")
	r.take("max_window_layers")
	r.layerTypes(c, func(int) bool { return false }) // without a window all types are the same
}

func fillQwen2MoE(_ *family, c *Config) {
	fill(&c.Experts, 60)
	fill(&c.ExpertsPerToken, 4)
	fill(&c.Mixture.SharedWidth, c.Intermediate)
}

func checkQwen2MoE(c Config) error {
	if n := c.Mixture.SharedWidth; n < 1 || n > maxSize {
		return fmt.Errorf("shared_expert_intermediate_size: got %d, want 1 to %d", n, maxSize)
	}
	return nil
}

func writeQwen2MoE(c Config, _ *family, m map[string]any) {
	writeTransformer(c, m)
	if c.HeadDim*c.Heads == c.Hidden {
		delete(m, "head_dim")
	}
	m["num_experts"], m["num_experts_per_tok"] = c.Experts, c.ExpertsPerToken
	m["moe_intermediate_size"], m["shared_expert_intermediate_size"] = c.expertWidth(), c.Mixture.SharedWidth
	m["qkv_bias"] = c.AttentionBias
	c.writeSparseLayers(m)
	m["use_sliding_window"], m["layer_types"] = false, slices.Repeat([]string{"full_attention"}, c.Layers)
}
