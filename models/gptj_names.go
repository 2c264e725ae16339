package models

import (
	"fmt"
	"math"
)

func gptjFamily() family {
	return family{
		name: "gptj", architecture: "GPTJForCausalLM", base: "transformer.", embedding: "wte.weight",
		keys: keys{
			hidden: "n_embd", intermediate: "n_inner", layers: "n_layer", heads: "n_head",
			positions: "n_positions", eps: "layer_norm_epsilon", activation: "activation_function",
		},
		eps: 1e-5, theta: 1e4, positions: 2048, activation: "gelu_new", pad: unpadded, rotary: true,
		read: readGPTJ, write: writeGPTJ, fill: fillGPTJ, check: checkGPTJ, build: buildGPTJ,
		stored: storedNames{buffers: []string{".attn.bias", ".attn.masked_bias", ".attn.embed_positions"}},
	}
}

func readGPTJ(r *reader, _ *family, c *Config) {
	c.Intermediate = r.count("n_inner", 4*c.Hidden)
	turned := r.rank("rotary_dim", 64)
	if turned == 0 {
		r.fail("rotary_dim", "not supported: got null, want how many elements of a head turn")
	}
	if head := c.Hidden / max(1, c.Heads); turned != head && head > 0 {
		c.Rope.Part = float64(turned) / float64(head)
		if c.Rope.turned(head) < turned { // rounded down
			c.Rope.Part = math.Nextafter(c.Rope.Part, 2)
		}
	}
	for _, key := range []string{"rotary", "scale_attn_weights"} { // of older files, and always true
		if !r.bool(key, true) {
			r.fail(key, "not supported: got false, want true")
		}
	}
	c.Dropout = Dropout{
		Embedding: r.probability("embd_pdrop"),
		Residual:  r.probability("resid_pdrop"),
		Attention: r.probability("attn_pdrop"),
	}
}

// fillGPTJ makes rotary pairs interleaved, in every model.
func fillGPTJ(_ *family, c *Config) {
	fill(&c.Intermediate, 4*c.Hidden)
	c.Rope.Interleaved = true
}

func checkGPTJ(c Config) error {
	if c.Rope.Type != "default" || c.Rope.Theta != 1e4 {
		return fmt.Errorf("gptj: rope type %q, theta %v: want default and 10000, which it always has", c.Rope.Type,
			c.Rope.Theta)
	}
	return checkGPT2(c)
}

func writeGPTJ(c Config, _ *family, m map[string]any) {
	m["rotary_dim"] = c.Rope.turned(c.HeadDim)
	m["embd_pdrop"] = number(c.Dropout.Embedding)
	m["resid_pdrop"] = number(c.Dropout.Residual)
	m["attn_pdrop"] = number(c.Dropout.Attention)
}
