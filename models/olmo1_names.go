package models

import "fmt"

// olmo1Eps is the epsilon of olmo's norms, which is not in the configuration.
const olmo1Eps = 1e-5

func olmo1Families() []family {
	keys := llamaKeys()
	keys.eps = ""
	return []family{like(family{
		name: "olmo", architecture: "OlmoForCausalLM", eps: olmo1Eps, theta: 1e4, positions: 2048, pad: 1,
		keys: keys,
		read: readOLMo1, write: writeOLMo1, check: checkOLMo1, build: buildOLMo1,
	})}
}

func readOLMo1(r *reader, f *family, c *Config) {
	r.transformer(f, c)
	c.AttentionBias = r.bool("attention_bias", false)
	c.QKVBound = r.float("clip_qkv", 0)
}

func checkOLMo1(c Config) error {
	if c.NormEps != olmo1Eps {
		return fmt.Errorf("epsilon %v: want %v", c.NormEps, olmo1Eps)
	}
	return checkBound(c)
}

func checkBound(c Config) error {
	if !(c.QKVBound >= 0) {
		return fmt.Errorf("clip_qkv %v: want no negative number", c.QKVBound)
	}
	return nil
}

func writeOLMo1(c Config, f *family, m map[string]any) {
	writeGemma(c, f, m)
	if c.HeadDim*c.Heads == c.Hidden {
		delete(m, "head_dim")
	}
	m["clip_qkv"] = orNull(number(c.QKVBound))
}
