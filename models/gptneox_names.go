package models

func gptNeoXFamily() family {
	keys := llamaKeys()
	keys.eps = "layer_norm_eps"
	return family{
		name: "gpt_neox", architecture: "GPTNeoXForCausalLM", base: "gpt_neox.", embedding: "embed_in.weight",
		keys: keys,
		eps:  1e-5, theta: 1e4, positions: 2048, activation: "gelu", pad: unpadded, rotary: true,
		read: readGPTNeoX, write: writeGPTNeoX, check: checkGPT2, build: buildGPTNeoX,
		stored: storedNames{
			buffers: []string{"rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias"},
			heads:   []string{"embed_out.weight"},
			renamed: []string{"lm_head.", "embed_out."},
		},
	}
}

func readGPTNeoX(r *reader, f *family, c *Config) {
	c.Intermediate = r.size("intermediate_size")
	r.renamed("rotary_emb_base", "rope_theta")
	if _, newer := r.raw["partial_rotary_factor"]; !newer && !r.has("rotary_pct") && !r.has("rope_parameters") {
		r.raw["rotary_pct"] = []byte("0.25")
	}
	r.renamed("rotary_pct", "partial_rotary_factor")
	r.rope(f, c)
	c.AttentionBias = r.bool("attention_bias", true)
	c.SequentialBlocks = !r.bool("use_parallel_residual", true)
	c.Dropout = Dropout{Attention: r.probability("attention_dropout"), Residual: r.probability("hidden_dropout")}
	c.Dropout.Embedding = c.Dropout.Residual
	r.probability("classifier_dropout") // of another head
}

// renamed replaces a key of older files by its newer name, unless the file has both.
func (r *reader) renamed(older, newer string) {
	if v := r.take(older); v != nil && !r.has(newer) {
		r.raw[newer] = v
	}
}

func writeGPTNeoX(c Config, _ *family, m map[string]any) {
	rope := c.Rope.written()
	if c.Rope.Part == 0 {
		rope["partial_rotary_factor"] = number(1)
	}
	m["rope_parameters"] = rope
	m["attention_bias"], m["use_parallel_residual"] = c.AttentionBias, !c.SequentialBlocks
	m["attention_dropout"], m["hidden_dropout"] = number(c.Dropout.Attention), number(c.Dropout.Residual)
}
