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
	if _, given := r.raw["partial_rotary_factor"]; !given && !r.has("rope_parameters") {
		r.raw["partial_rotary_factor"] = []byte("0.5")
	}
	r.transformer(f, c)
	if r.bool("qk_layernorm", false) {
		r.fail("qk_layernorm", "not supported: got true, want false")
	}
	c.Dropout.Embedding, c.Dropout.Residual = r.probability("embd_pdrop"), r.probability("resid_pdrop")
}

func writePhi1(c Config, _ *family, m map[string]any) {
	writeTransformer(c, m)
	if c.HeadDim*c.Heads == c.Hidden {
		delete(m, "head_dim")
	}
	if c.Rope.Part == 0 {
		m["rope_parameters"].(map[string]any)["partial_rotary_factor"] = number(1)
	}
	m["embd_pdrop"], m["resid_pdrop"] = number(c.Dropout.Embedding), number(c.Dropout.Residual)
}
