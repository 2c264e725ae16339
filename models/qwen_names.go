package models

import "slices"

func qwenFamilies() []family {
	qwen3moe := llamaKeys()
	qwen3moe.experts = "num_experts"
	return []family{
		like(family{
			name: "qwen2", architecture: "Qwen2ForCausalLM", eps: 1e-6, theta: 1e4, positions: 32768,
			qkvBias: true,
			pad:     noPad, read: readQwen, write: writeQwen,
		}),
		like(family{
			name: "qwen3", architecture: "Qwen3ForCausalLM", eps: 1e-6, theta: 1e4, positions: 32768,
			qkNorm: true,
			pad:    noPad, read: readQwen, write: writeQwen,
		}),
		like(family{
			name: "qwen3_moe", architecture: "Qwen3MoeForCausalLM", eps: 1e-6, theta: 1e4, positions: 32768,
			qkNorm:  true,
			experts: true, pad: noPad, keys: qwen3moe,
			read: readQwen3MoE, write: writeQwen3MoE, fill: fillQwen3MoE,
		}),
	}
}

func readQwen(r *reader, f *family, c *Config) {
	r.transformer(f, c)
	if f.qkNorm {
		c.AttentionBias = r.bool("attention_bias", false)
	}
	r.windowByLayer(c)
}

// windowByLayer reads qwen's sliding window: a list of layers, or all from max_window_layers up. A window of
// null means none, whatever the other keys are.
func (r *reader) windowByLayer(c *Config) {
	window := r.countUnlessNull("sliding_window", 4096)
	use := r.bool("use_sliding_window", false) && window > 0
	first := r.int("max_window_layers", 28)
	layers := r.layerTypes(c, func(i int) bool { return use && i >= first })
	any := slices.Contains(layers, true)
	if any && !use {
		r.fail("layer_types", "got sliding_attention, want use_sliding_window with it")
	}
	if any {
		c.Window, c.WindowLayers = window, layers
	}
}

func writeQwen(c Config, f *family, m map[string]any) {
	writeTransformer(c, m)
	if f.qkvBias && c.HeadDim*c.Heads == c.Hidden {
		delete(m, "head_dim")
	}
	if f.qkNorm {
		m["attention_bias"] = c.AttentionBias
	}
	m["sliding_window"] = orNull(c.Window)
	types, first := c.layerTypes()
	m["layer_types"], m["max_window_layers"], m["use_sliding_window"] = types, first, c.Window > 0
}

// layerTypes returns which layers have a sliding window, as a list and, for readers that do not know the
// list, as a number.
func (c Config) layerTypes() (types []string, first int) {
	types, first = make([]string, c.Layers), c.Layers
	for i := range types {
		types[i] = "full_attention"
		if c.WindowOf(i) > 0 {
			types[i] = "sliding_attention"
			first = min(first, i)
		}
	}
	return types, first
}

func readQwen3MoE(r *reader, f *family, c *Config) {
	r.transformer(f, c)
	c.AttentionBias = r.bool("attention_bias", false)
	window := r.countUnlessNull("sliding_window", 4096)
	use := r.bool("use_sliding_window", false) && window > 0
	r.take("max_window_layers") // only qwen3 uses it
	if use {
		c.Window, c.WindowLayers = window, slices.Repeat([]bool{true}, min(c.Layers, maxLayers))
	}
	experts := r.count("num_local_experts", 128) // the two names of one size
	c.Experts = r.count("num_experts", experts)
	c.ExpertsPerToken = r.count("num_experts_per_tok", 8)
	c.Mixture.Width = r.count("moe_intermediate_size", 768)
	c.Mixture.Routing.RawWeights = !r.bool("norm_topk_prob", false)
	r.sparseLayers(c)
}

// sparseLayers reads which layers have experts: every n-th one, except for those that are listed.
func (r *reader) sparseLayers(c *Config) {
	step := r.count("decoder_sparse_step", 1)
	dense := get(r, "mlp_only_layers", "a list of layers", []int(nil))
	c.Mixture.Dense = c.denseLayers(func(i int) bool {
		return slices.Contains(dense, i) || (i+1)%max(1, step) != 0
	})
}

// denseLayers lists the layers with a plain MLP; nil if there are none.
func (c Config) denseLayers(dense func(layer int) bool) []bool {
	list := make([]bool, min(c.Layers, maxLayers))
	for i := range list {
		list[i] = dense(i)
	}
	if !slices.Contains(list, true) {
		return nil
	}
	return list
}

func fillQwen3MoE(_ *family, c *Config) {
	fill(&c.Experts, 128)
	fill(&c.ExpertsPerToken, 8)
}

func writeQwen3MoE(c Config, _ *family, m map[string]any) {
	writeTransformer(c, m)
	m["attention_bias"] = c.AttentionBias
	m["sliding_window"], m["use_sliding_window"] = orNull(c.Window), c.Window > 0
	m["num_experts"], m["num_experts_per_tok"] = c.Experts, c.ExpertsPerToken
	m["moe_intermediate_size"] = c.expertWidth()
	c.writeSparseLayers(m)
}

// writeSparseLayers writes which layers have experts, and whether their weights are normalized.
func (c Config) writeSparseLayers(m map[string]any) {
	m["norm_topk_prob"] = !c.Mixture.Routing.RawWeights
	only := []int{}
	for i, dense := range c.Mixture.Dense {
		if dense {
			only = append(only, i)
		}
	}
	m["decoder_sparse_step"], m["mlp_only_layers"] = 1, only
}
