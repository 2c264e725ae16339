package models

func cohereFamilies() []family {
	keys := llamaKeys()
	keys.eps = "layer_norm_eps"
	return []family{like(family{
		name: "cohere", architecture: "CohereForCausalLM", eps: 1e-5, theta: 1e4, positions: 8192, pad: 0,
		tied: true,
		keys: keys, read: readCohere, write: writeCohere, fill: fillCohere, build: buildCohere,
	})}
}

func readCohere(r *reader, f *family, c *Config) {
	r.transformer(f, c)
	c.AttentionBias = r.bool("attention_bias", false)
	c.Multipliers.Logits = r.float("logit_scale", 0.0625)
	if r.bool("use_qk_norm", false) {
		r.fail("use_qk_norm", "not supported: got true, want false")
	}
}

// fillCohere pairs neighbours in rotary positions, in every model.
func fillCohere(_ *family, c *Config) {
	c.Rope.Interleaved = true
	fill(&c.Multipliers.Logits, 0.0625)
}

func writeCohere(c Config, _ *family, m map[string]any) {
	writeTransformer(c, m)
	if c.HeadDim*c.Heads == c.Hidden {
		delete(m, "head_dim")
	}
	m["attention_bias"], m["logit_scale"] = c.AttentionBias, number(c.Multipliers.Logits)
}
