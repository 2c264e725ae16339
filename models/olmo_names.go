package models

func olmoFamilies() []family {
	keys := llamaKeys()
	keys.experts = "num_experts"
	return []family{
		like(family{
			name: "olmo2", architecture: "Olmo2ForCausalLM", eps: 1e-5, theta: 1e4, positions: 2048, pad: 1,
			read: readOLMo, write: writeGemma, build: buildOLMo,
		}),
		like(family{
			name: "olmo3", architecture: "Olmo3ForCausalLM", eps: 1e-5, theta: 1e4, positions: 2048, pad: 1,
			window: 4096, read: readOLMo3, write: writeOLMo3, build: buildOLMo,
		}),
		like(family{
			name: "olmoe", architecture: "OlmoeForCausalLM", eps: 1e-5, theta: 1e4, positions: 4096, pad: 1,
			experts: true, keys: keys, read: readOLMoE, write: writeOLMoE, fill: fillOLMoE, check: checkBound,
			build: buildOLMoE,
		}),
	}
}

func readOLMo(r *reader, f *family, c *Config) {
	r.transformer(f, c)
	c.AttentionBias = r.bool("attention_bias", false)
}

// readOLMo3 reads a sliding window for all layers except every fourth.
func readOLMo3(r *reader, f *family, c *Config) {
	c.Intermediate = r.size("intermediate_size")
	r.attention(c)
	c.AttentionBias = r.bool("attention_bias", false)
	r.gemmaWindow(f, c, 4)
	theta := r.float("rope_theta", f.theta)
	r.ropesByType(c, theta, theta)
}

func writeOLMo3(c Config, f *family, m map[string]any) {
	writeGemma(c, f, m)
	if c.HeadDim*c.Heads == c.Hidden {
		delete(m, "head_dim")
	}
	m["sliding_window"] = f.window
	if c.Window > 0 {
		m["sliding_window"] = c.Window
	}
	m["layer_types"], _ = c.layerTypes()
	c.writeRopes(m)
}

func readOLMoE(r *reader, f *family, c *Config) {
	readOLMo1(r, f, c)
	experts := r.count("num_local_experts", 64) // the two names of one size
	c.Experts = r.count("num_experts", experts)
	c.ExpertsPerToken = r.count("num_experts_per_tok", 8)
	c.Mixture.Routing.RawWeights = !r.bool("norm_topk_prob", false)
}

func fillOLMoE(_ *family, c *Config) {
	fill(&c.Experts, 64)
	fill(&c.ExpertsPerToken, 8)
}

func writeOLMoE(c Config, f *family, m map[string]any) {
	writeOLMo1(c, f, m)
	m["num_experts"], m["num_experts_per_tok"] = c.Experts, c.ExpertsPerToken
	m["norm_topk_prob"] = !c.Mixture.Routing.RawWeights
}
