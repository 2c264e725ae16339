package models

func olmoFamilies() []family {
	return []family{like(family{
		name: "olmo2", architecture: "Olmo2ForCausalLM", eps: 1e-5, theta: 1e4, positions: 2048, pad: 1,
		read: readOLMo, write: writeGemma, build: buildOLMo,
	})}
}

func readOLMo(r *reader, f *family, c *Config) {
	r.transformer(f, c)
	c.AttentionBias = r.bool("attention_bias", false)
}
