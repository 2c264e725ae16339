package models

import "fmt"

func rwkvFamily() family {
	return family{
		name: "rwkv", architecture: "RwkvForCausalLM", base: "rwkv.", embedding: "embeddings.weight",
		keys: keys{
			hidden: "hidden_size", intermediate: "intermediate_size", layers: "num_hidden_layers",
			positions: "context_length",
			eps:       "layer_norm_epsilon",
		},
		eps: 1e-5, positions: 1024, activation: "relu", pad: unpadded, recurrent: true,
		read: readRWKV, write: writeRWKV, fill: fillRWKV, check: checkRWKV, build: buildRWKV,
		stored: storedNames{heads: []string{"head.weight"}},
	}
}

func readRWKV(r *reader, _ *family, c *Config) {
	c.Heads = r.count("attention_hidden_size", c.Hidden)
	c.Intermediate = r.count("intermediate_size", 4*c.Hidden)
	c.HeadDim = 1
	r.take("rescale_every") // it keeps 16-bit floats in range and changes nothing else
}

func fillRWKV(_ *family, c *Config) { fill(&c.Intermediate, 4*c.Hidden) }

func checkRWKV(c Config) error {
	if c.HeadDim != 1 || c.KVHeads != c.Heads {
		return fmt.Errorf("rwkv: %d heads of %d, %d of keys: want attention_hidden_size channels of their own",
			c.Heads, c.HeadDim, c.KVHeads)
	}
	return nil
}

func writeRWKV(c Config, _ *family, m map[string]any) { m["attention_hidden_size"] = c.Heads }
