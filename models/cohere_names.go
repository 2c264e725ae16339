package models

func cohereFamilies() []family {
	keys := llamaKeys()
	keys.eps = "layer_norm_eps"
	both := func(f family) family {
		f.eps, f.theta, f.positions, f.pad, f.tied, f.keys = 1e-5, 1e4, 8192, 0, true, keys
		f.fill, f.build = fillCohere, buildCohere
		return like(f)
	}
	return []family{
		both(family{name: "cohere", architecture: "CohereForCausalLM", read: readCohere, write: writeCohere}),
		both(family{name: "cohere2", architecture: "Cohere2ForCausalLM", read: readCohere2, write: writeCohere2,
			window: 4096}),
	}
}

func readCohere(r *reader, f *family, c *Config) {
	r.transformer(f, c)
	c.AttentionBias = r.bool("attention_bias", false)
	c.Multipliers.Logits = r.float("logit_scale", 0.0625)
	c.QKLayerNorm = r.bool("use_qk_norm", false)
}

// readCohere2 reads a sliding window for all layers except every fourth, which has no rotary positions.
func readCohere2(r *reader, f *family, c *Config) {
	r.transformer(f, c)
	c.AttentionBias = r.bool("attention_bias", false)
	c.Multipliers.Logits = r.float("logit_scale", 0.0625)
	pattern := r.count("sliding_window_pattern", 4)
	r.gemmaWindow(f, c, r.count("_sliding_window_pattern", pattern))
	c.Unturned = c.denseLayers(func(i int) bool { return c.WindowOf(i) == 0 })
	for _, key := range []string{"order_of_interleaved_layers", "rotary_pct", "use_embedding_sharing",
		"use_gated_activation", "use_parallel_block", "use_parallel_embedding", "position_embedding_type",
		"cache_implementation", "layer_switch"} {
		r.take(key) // metadata of the program that wrote the first files
	}
}

// fillCohere makes rotary pairs interleaved, in every model.
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
	m["use_qk_norm"] = c.QKLayerNorm
}

func writeCohere2(c Config, f *family, m map[string]any) {
	writeCohere(c, f, m)
	delete(m, "use_qk_norm")
	m["sliding_window"] = f.window
	if c.Window > 0 {
		m["sliding_window"] = c.Window
	}
	types, _ := c.layerTypes()
	m["layer_types"] = types
}
