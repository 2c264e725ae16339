package models

import "fmt"

func graniteFamilies() []family {
	return []family{like(family{
		name: "granite", architecture: "GraniteForCausalLM", eps: 1e-6, theta: 1e4, positions: 2048, pad: noPad,
		read: readGranite, write: writeGranite, fill: fillGranite, check: checkGranite, build: buildGranite,
	})}
}

func readGranite(r *reader, f *family, c *Config) {
	readLlama(r, f, c)
	c.Multipliers = Multipliers{
		Embedding: r.float("embedding_multiplier", 1), Attention: r.float("attention_multiplier", 1),
		Residual: r.float("residual_multiplier", 1), Logits: 1 / r.float("logits_scaling", 1),
	}
}

func fillGranite(_ *family, c *Config) {
	fill(&c.Multipliers.Embedding, 1)
	fill(&c.Multipliers.Attention, 1)
	fill(&c.Multipliers.Residual, 1)
	fill(&c.Multipliers.Logits, 1)
}

func checkGranite(c Config) error {
	m := c.Multipliers
	if !positive(m.Embedding) || !positive(m.Attention) || !positive(m.Residual) || !positive(m.Logits) {
		return fmt.Errorf("embedding_multiplier %v, attention_multiplier %v, residual_multiplier %v, "+
			"1/logits_scaling %v: want positive numbers", m.Embedding, m.Attention, m.Residual, m.Logits)
	}
	return nil
}

func writeGranite(c Config, f *family, m map[string]any) {
	writeLlama(c, f, m)
	if c.HeadDim*c.Heads == c.Hidden {
		delete(m, "head_dim")
	}
	by := c.Multipliers
	m["embedding_multiplier"], m["attention_multiplier"] = number(by.Embedding), number(by.Attention)
	m["residual_multiplier"], m["logits_scaling"] = number(by.Residual), number(1/by.Logits)
}
