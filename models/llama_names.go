package models

import "slices"

// like returns a family built from Llama's layers, with Llama's values for everything that f does not set.
func like(f family) family {
	f.base, f.embedding, f.activation, f.rotary = "model.", "embed_tokens.weight", "silu", true
	if f.keys == (keys{}) {
		f.keys = llamaKeys()
	}
	if f.build == nil {
		f.build = buildLlama
	}
	if f.stored.gate == "" {
		f.stored = plainExperts()
	}
	return f
}

func llamaFamilies() []family {
	return []family{
		like(family{
			name: "llama", architecture: "LlamaForCausalLM", eps: 1e-6, theta: 1e4, positions: 2048,
			pad:  noPad,
			read: readLlama, write: writeLlama,
		}),
		like(family{
			name: "mistral", architecture: "MistralForCausalLM", eps: 1e-6, theta: 1e4, positions: 131072,
			window: 4096,
			pad:    noPad, read: readMistral, write: writeMistral,
		}),
		like(family{
			name: "ministral", architecture: "MinistralForCausalLM", eps: 1e-6, theta: 1e4, positions: 131072,
			window: 4096,
			pad:    noPad, read: readMinistral, write: writeMinistral,
		}),
		like(family{
			name: "mixtral", architecture: "MixtralForCausalLM", eps: 1e-5, theta: 1e6, positions: 131072,
			experts: true,
			pad:     noPad, read: readMistral, write: writeMistral, fill: fillMixtral,
			stored: storedNames{
				mlp: "block_sparse_moe", gate: "w1", up: "w3", down: "w2", buffers: rotaryBuffers(),
				renamed: []string{".mlp.gate.", ".block_sparse_moe.gate."},
			},
		}),
	}
}

// transformer reads the keys that all families like Llama have.
func (r *reader) transformer(f *family, c *Config) {
	c.Intermediate = r.size("intermediate_size")
	r.attention(c)
	r.rope(f, c)
}

func readLlama(r *reader, f *family, c *Config) {
	r.transformer(f, c)
	c.AttentionBias = r.bool("attention_bias", false)
	c.MLPBias = r.bool("mlp_bias", false)
}

func readMistral(r *reader, f *family, c *Config) {
	r.transformer(f, c)
	if f.experts {
		c.Experts = r.count("num_local_experts", 8)
		c.ExpertsPerToken = r.count("num_experts_per_tok", 2)
	}
	r.windowEverywhere(f, c)
}

// readMinistral reads which layers have the sliding window: all of them by default.
func readMinistral(r *reader, f *family, c *Config) {
	r.transformer(f, c)
	window := f.window
	if _, given := r.raw["sliding_window"]; given {
		window = r.count("sliding_window", 0)
	}
	layers := r.layerTypes(c, func(int) bool { return window > 0 })
	if slices.Contains(layers, true) {
		c.Window, c.WindowLayers = window, layers
	}
}

func writeMinistral(c Config, _ *family, m map[string]any) {
	writeTransformer(c, m)
	m["sliding_window"] = orNull(c.Window)
	m["layer_types"], _ = c.layerTypes()
}

func fillMixtral(_ *family, c *Config) {
	fill(&c.Experts, 8)
	fill(&c.ExpertsPerToken, 2)
}

// writeTransformer writes the keys that all families like Llama have.
func writeTransformer(c Config, m map[string]any) {
	m["num_key_value_heads"] = c.KVHeads
	m["attention_dropout"] = number(c.Dropout.Attention)
	m["head_dim"] = c.HeadDim
	m["rope_parameters"] = c.Rope.written()
}

func writeLlama(c Config, _ *family, m map[string]any) {
	writeTransformer(c, m)
	m["attention_bias"], m["mlp_bias"] = c.AttentionBias, c.MLPBias
}

func writeMistral(c Config, f *family, m map[string]any) {
	writeTransformer(c, m)
	m["sliding_window"] = orNull(c.Window)
	if f.experts {
		m["num_local_experts"], m["num_experts_per_tok"] = c.Experts, c.ExpertsPerToken
	}
}

// orNull returns a number, or null if it is 0.
func orNull[T int | float64 | number](x T) any {
	if x == 0 {
		return nil
	}
	return x
}
