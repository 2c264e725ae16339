package models

func starcoderFamilies() []family {
	keys := llamaKeys()
	keys.eps = "norm_epsilon"
	f := like(family{
		name: "starcoder2", architecture: "Starcoder2ForCausalLM", eps: 1e-5, theta: 1e4, positions: 4096,
		pad: noPad, tied: true, keys: keys, read: readStarcoder, write: writeStarcoder, build: buildStarcoder,
	})
	f.activation = "gelu_pytorch_tanh"
	return []family{f}
}

func readStarcoder(r *reader, f *family, c *Config) {
	r.transformer(f, c)
	r.windowEverywhere(f, c)
	bias := r.bool("use_bias", true)
	c.AttentionBias, c.MLPBias = bias, bias
	c.Dropout.Embedding = r.probability("embedding_dropout")
	c.Dropout.Residual = r.probability("residual_dropout")
}

func writeStarcoder(c Config, _ *family, m map[string]any) {
	writeTransformer(c, m)
	if c.HeadDim*c.Heads == c.Hidden {
		delete(m, "head_dim")
	}
	m["sliding_window"], m["use_bias"] = orNull(c.Window), c.AttentionBias
	m["embedding_dropout"], m["residual_dropout"] = number(c.Dropout.Embedding), number(c.Dropout.Residual)
}
