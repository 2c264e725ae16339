package models

import "slices"

func gemmaFamilies() []family {
	hidden := llamaKeys()
	hidden.activation = "hidden_activation"
	gemma := func(f family) family {
		f.eps, f.theta, f.tied, f.pad, f.build = 1e-6, 1e4, true, 0, buildGemma
		f = like(f)
		f.activation = "gelu_pytorch_tanh"
		return f
	}
	return []family{
		gemma(family{
			name: "gemma", architecture: "GemmaForCausalLM", positions: 8192,
			read: readGemma, write: writeGemma,
		}),
		gemma(family{
			name: "gemma2", architecture: "Gemma2ForCausalLM", positions: 8192, window: 4096, keys: hidden,
			read: readGemma2, write: writeGemma2,
		}),
		gemma(family{
			name: "gemma3_text", architecture: "Gemma3ForCausalLM", positions: 131072, window: 4096,
			qkNorm: true, keys: hidden,
			read: readGemma3, write: writeGemma3,
		}),
	}
}

// gemma reads what all versions have.
func (r *reader) gemma(c *Config) {
	c.Intermediate = r.size("intermediate_size")
	r.attention(c)
	c.AttentionBias = r.bool("attention_bias", false)
	if r.bool("use_bidirectional_attention", false) {
		r.fail("use_bidirectional_attention", "not supported: got true, want false")
	}
}

func readGemma(r *reader, f *family, c *Config) {
	r.gemma(c)
	r.rope(f, c)
	r.take("hidden_activation") // the older name, which transformers ignores now
}

func readGemma2(r *reader, f *family, c *Config) {
	r.gemma(c)
	r.rope(f, c)
	r.take("hidden_act")
	r.take("sliding_window_size") // beside sliding_window in the first files; transformers ignores it
	r.gemmaWindow(f, c, 2)
	c.QueryScalar = r.float("query_pre_attn_scalar", 256)
	c.ScoreCap = r.capAt("attn_logit_softcapping", 50)
	c.LogitCap = r.capAt("final_logit_softcapping", 30)
}

func readGemma3(r *reader, f *family, c *Config) {
	r.gemma(c)
	r.take("hidden_act")
	pattern := r.count("sliding_window_pattern", 6)
	r.gemmaWindow(f, c, r.count("_sliding_window_pattern", pattern))
	c.QueryScalar = r.float("query_pre_attn_scalar", 256)
	c.ScoreCap = r.capAt("attn_logit_softcapping", 0)
	c.LogitCap = r.capAt("final_logit_softcapping", 0)
	theta := r.float("rope_theta", 1e6)
	r.ropesByType(c, theta, r.float("rope_local_base_freq", 1e4))
}

// capAt reads a cap; null means none.
func (r *reader) capAt(key string, byDefault float64) float64 {
	if _, ok := r.raw[key]; ok {
		byDefault = 0
	}
	return r.float(key, byDefault)
}

// gemmaWindow reads the sliding window of all layers except every pattern-th.
func (r *reader) gemmaWindow(f *family, c *Config, pattern int) {
	window := r.count("sliding_window", f.window)
	layers := r.layerTypes(c, func(i int) bool { return (i+1)%max(1, pattern) != 0 })
	if slices.Contains(layers, true) {
		c.Window, c.WindowLayers = window, layers
	}
}

// ropesByType reads the rotary parameters of each type of layer, in the newer form or in the older one, in
// which only those of layers without a window are scaled.
func (r *reader) ropesByType(c *Config, theta, localTheta float64) {
	full := Rope{Type: "default", Theta: theta, OriginalPositions: c.Positions, Positions: c.Positions}
	local := Rope{Type: "default", Theta: localTheta, OriginalPositions: c.Positions}
	key := r.ropeKey()
	in, err := newReader(r.raw[key])
	if err == nil && (in.has("full_attention") || in.has("sliding_attention")) {
		r.take(key)
		c.Rope, c.RopeLocal = in.ropeAt("full_attention", full), in.ropeAt("sliding_attention", local)
		in.rest()
		if in.err != nil {
			r.fail(key, "%v", in.err)
		}
	} else {
		c.Rope = r.ropeAt(key, full)
		local.OriginalPositions = 0
		c.RopeLocal = local
	}
	c.Rope.Positions = c.ropePositions()
}

func writeGemma(c Config, _ *family, m map[string]any) {
	writeTransformer(c, m)
	m["attention_bias"] = c.AttentionBias
}

func writeGemma2(c Config, f *family, m map[string]any) {
	writeGemma(c, f, m)
	m["sliding_window"] = f.window
	if c.Window > 0 {
		m["sliding_window"] = c.Window
	}
	m["layer_types"], _ = c.layerTypes()
	m["query_pre_attn_scalar"] = number(c.queryScalar())
	m["attn_logit_softcapping"] = orNull(number(c.ScoreCap))
	m["final_logit_softcapping"] = orNull(number(c.LogitCap))
}

func writeGemma3(c Config, f *family, m map[string]any) {
	writeGemma2(c, f, m)
	c.writeRopes(m)
}

// writeRopes writes the rotary parameters of each type of layer.
func (c Config) writeRopes(m map[string]any) {
	local := c.RopeLocal
	if local.Type == "" {
		local = c.Rope
	}
	m["rope_parameters"] = map[string]any{"full_attention": c.Rope.written(),
		"sliding_attention": local.written()}
}
