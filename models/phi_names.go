package models

func phiFamilies() []family {
	return []family{like(family{
		name: "phi3", architecture: "Phi3ForCausalLM", eps: 1e-5, theta: 1e4, positions: 4096, pad: 32000,
		read: readPhi, write: writePhi, build: buildPhi,
	})}
}

func readPhi(r *reader, f *family, c *Config) {
	r.transformer(f, c)
	r.windowEverywhere(f, c)
	c.Dropout.Embedding, c.Dropout.Residual = r.probability("embd_pdrop"), r.probability("resid_pdrop")
	r.take("auto_map")
}

func writePhi(c Config, _ *family, m map[string]any) {
	writeTransformer(c, m)
	if c.HeadDim*c.Heads == c.Hidden {
		delete(m, "head_dim")
	}
	m["sliding_window"] = orNull(c.Window)
	m["embd_pdrop"], m["resid_pdrop"] = number(c.Dropout.Embedding), number(c.Dropout.Residual)
	m["original_max_position_embeddings"] = c.Positions
	if c.Rope.OriginalPositions > 0 {
		m["original_max_position_embeddings"] = c.Rope.OriginalPositions
	}
}
