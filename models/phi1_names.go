package models

func phi1Families() []family {
	keys := llamaKeys()
	keys.eps = "layer_norm_eps"
	f := like(family{
		name: "phi", architecture: "PhiForCausalLM", eps: 1e-5, theta: 1e4, positions: 2048, pad: noPad, keys: keys,
		read: readPhi1, write: writePhi1, build: buildPhi1,
	})
	f.activation = "gelu_new"
	return []family{f}
}

func readPhi1(r *reader, f *family, c *Config) {
	r.partLeftOut("0.5")
	r.transformer(f, c)
	c.QKLayerNorm = r.bool("qk_layernorm", false)
	c.Dropout.Embedding, c.Dropout.Residual = r.probability("embd_pdrop"), r.probability("resid_pdrop")
}

// partLeftOut sets the default of partial_rotary_factor for older files.
func (r *reader) partLeftOut(part string) {
	if _, given := r.raw["partial_rotary_factor"]; !given && !r.has("rope_parameters") {
		r.raw["partial_rotary_factor"] = []byte(part)
	}
}

// writeWholePart writes that all of a head is rotated, if omitting it would mean a part.
func writeWholePart(c Config, m map[string]any) {
	if c.Rope.Part == 0 {
		m["rope_parameters"].(map[string]any)["partial_rotary_factor"] = number(1)
	}
}

func writePhi1(c Config, _ *family, m map[string]any) {
	writeTransformer(c, m)
	if c.HeadDim*c.Heads == c.Hidden {
		delete(m, "head_dim")
	}
	writeWholePart(c, m)
	m["embd_pdrop"], m["resid_pdrop"] = number(c.Dropout.Embedding), number(c.Dropout.Residual)
	m["qk_layernorm"] = c.QKLayerNorm
}
