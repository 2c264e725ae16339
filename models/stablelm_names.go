package models

func stableLMFamilies() []family {
	keys := llamaKeys()
	keys.eps = "layer_norm_eps"
	return []family{like(family{
		name: "stablelm", architecture: "StableLmForCausalLM", eps: 1e-5, theta: 1e4, positions: 4096, pad: noPad,
		keys: keys, read: readStableLM, write: writeStableLM, build: buildStableLM,
	})}
}

func readStableLM(r *reader, f *family, c *Config) {
	r.partLeftOut("0.25")
	r.transformer(f, c)
	c.AttentionBias = r.bool("use_qkv_bias", false)
	c.QKLayerNorm = r.bool("qk_layernorm", false)
	c.SequentialBlocks = !r.bool("use_parallel_residual", false)
	c.Dropout.Residual = r.probability("hidden_dropout")
}

func writeStableLM(c Config, _ *family, m map[string]any) {
	writeTransformer(c, m)
	if c.HeadDim*c.Heads == c.Hidden {
		delete(m, "head_dim")
	}
	writeWholePart(c, m)
	m["use_qkv_bias"], m["qk_layernorm"] = c.AttentionBias, c.QKLayerNorm
	m["use_parallel_residual"], m["hidden_dropout"] = !c.SequentialBlocks, number(c.Dropout.Residual)
}
