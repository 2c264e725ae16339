package models

import "fmt"

func gpt2Family() family {
	return family{
		name: "gpt2", architecture: "GPT2LMHeadModel", base: "transformer.", embedding: "wte.weight",
		keys: keys{
			hidden: "n_embd", intermediate: "n_inner", layers: "n_layer", heads: "n_head",
			positions: "n_positions",
			eps:       "layer_norm_epsilon", activation: "activation_function",
		},
		eps: 1e-5, positions: 1024, activation: "gelu_new", tied: true, pad: unpadded, learnedPositions: true,
		read: readGPT2, write: writeGPT2, fill: fillGPT2, check: checkGPT2, build: buildGPT2,
		stored: storedNames{buffers: []string{".attn.bias", ".attn.masked_bias"}},
	}
}

func readGPT2(r *reader, _ *family, c *Config) {
	c.Intermediate = r.count("n_inner", 4*c.Hidden)
	c.UnscaledAttention = !r.bool("scale_attn_weights", true)
	c.ScaleByLayer = r.bool("scale_attn_by_inverse_layer_idx", false)
	c.Dropout = Dropout{
		Embedding: r.probability("embd_pdrop"),
		Residual:  r.probability("resid_pdrop"),
		Attention: r.probability("attn_pdrop"),
	}
}

func writeGPT2(c Config, _ *family, m map[string]any) {
	m["scale_attn_weights"] = !c.UnscaledAttention
	m["scale_attn_by_inverse_layer_idx"] = c.ScaleByLayer
	m["embd_pdrop"] = number(c.Dropout.Embedding)
	m["resid_pdrop"] = number(c.Dropout.Residual)
	m["attn_pdrop"] = number(c.Dropout.Attention)
}

func fillGPT2(_ *family, c *Config) { fill(&c.Intermediate, 4*c.Hidden) }

func checkGPT2(c Config) error {
	if c.KVHeads != c.Heads || c.HeadDim*c.Heads != c.Hidden {
		return fmt.Errorf("%s: want n_embd %d in n_head %d equal heads: got %d heads of keys, head_dim %d",
			c.Family, c.Hidden, c.Heads, c.KVHeads, c.HeadDim)
	}
	return nil
}
