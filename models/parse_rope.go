package models

// rope reads rope_parameters, or rope_scaling and rope_theta beside it.
func (r *reader) rope(f *family, c *Config) {
	theta := r.float("rope_theta", f.theta)
	part := r.float("partial_rotary_factor", 1)
	original := r.count("original_max_position_embeddings", c.Positions)
	c.Rope = r.ropeAt(r.ropeKey(), Rope{Type: "default", Theta: theta, Part: part,
		OriginalPositions: original,
		Positions:         c.Positions})
	c.Rope.Positions = c.ropePositions()
}

// ropeKey returns the key of the rotary parameters; the older name beside the newer one has the same content.
func (r *reader) ropeKey() string {
	const newer, older = "rope_parameters", "rope_scaling"
	if r.has(older) && !r.has(newer) {
		return older
	}
	r.take(older)
	return newer
}

// ropeAt reads an object of rotary parameters; otherwise holds the defaults.
func (r *reader) ropeAt(key string, otherwise Rope) Rope {
	if otherwise.Part == 1 {
		otherwise.Part = 0
	}
	v := r.take(key)
	if v == nil {
		otherwise.OriginalPositions, otherwise.Positions = 0, 0
		return otherwise
	}
	in, err := newReader(v)
	if err != nil {
		r.fail(key, "%v", err)
		return otherwise
	}
	rope := in.ropeObject(otherwise)
	in.rest()
	if in.err != nil {
		r.fail(key, "%v", in.err)
	}
	return rope
}

func (r *reader) ropeObject(otherwise Rope) Rope {
	rope := Rope{Type: r.string("rope_type", ""), Theta: r.float("rope_theta", otherwise.Theta)}
	if older := r.string("type", "default"); rope.Type == "" {
		rope.Type = older
	}
	if rope.Type == "su" { // Phi-3's first name for it
		rope.Type = "longrope"
	}
	if part := r.float("partial_rotary_factor", otherwise.Part); part != 1 {
		rope.Part = part
	}
	switch rope.Type {
	case "default":
	case "linear", "dynamic":
		rope.Factor = r.float("factor", 0)
	case "llama3":
		rope.Factor = r.float("factor", 0)
		rope.LowFreqFactor = r.float("low_freq_factor", 0)
		rope.HighFreqFactor = r.float("high_freq_factor", 0)
		rope.OriginalPositions = r.count("original_max_position_embeddings", otherwise.OriginalPositions)
	case "yarn":
		r.yarn(&rope, otherwise)
	case "longrope":
		rope.Factor = r.float("factor", 0)
		rope.AttentionFactor = r.float("attention_factor", 0)
		rope.Short = get(r, "short_factor", "a list of numbers", []float64(nil))
		rope.Long = get(r, "long_factor", "a list of numbers", []float64(nil))
		rope.OriginalPositions = r.count("original_max_position_embeddings", otherwise.OriginalPositions)
	default:
		r.fail("rope_type", "%q is not supported: want %s", rope.Type, listed(rope.Type, ropeTypes()))
	}
	r.otherRopes()
	return rope
}

func (r *reader) yarn(rope *Rope, otherwise Rope) {
	rope.Factor = r.float("factor", 0)
	rope.AttentionFactor = r.float("attention_factor", 0)
	rope.BetaFast, rope.BetaSlow = r.float("beta_fast", 0), r.float("beta_slow", 0)
	rope.MScale, rope.MScaleAll = r.float("mscale", 0), r.float("mscale_all_dim", 0)
	rope.Untruncated = !r.bool("truncate", true)
	rope.OriginalPositions = r.count("original_max_position_embeddings", otherwise.OriginalPositions)
	if rope.Factor == 0 && rope.OriginalPositions > 0 {
		rope.Factor = float64(otherwise.Positions) / float64(rope.OriginalPositions)
	}
}

// otherRopes drops parameters of other types, which some files contain and transformers ignores as well.
func (r *reader) otherRopes() {
	for _, key := range []string{
		"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings",
		"attention_factor", "beta_fast",
		"beta_slow", "mscale", "mscale_all_dim", "truncate", "short_factor", "long_factor", "short_mscale",
		"long_mscale",
	} {
		r.take(key)
	}
}

// written returns the parameters in the form of config.json.
func (r Rope) written() map[string]any {
	m := map[string]any{"rope_type": r.Type, "rope_theta": number(r.Theta)}
	put := func(key string, x float64) {
		if x != 0 {
			m[key] = number(x)
		}
	}
	put("factor", r.Factor)
	put("partial_rotary_factor", r.Part)
	put("low_freq_factor", r.LowFreqFactor)
	put("high_freq_factor", r.HighFreqFactor)
	put("attention_factor", r.AttentionFactor)
	put("beta_fast", r.BetaFast)
	put("beta_slow", r.BetaSlow)
	put("mscale", r.MScale)
	put("mscale_all_dim", r.MScaleAll)
	if r.OriginalPositions > 0 {
		m["original_max_position_embeddings"] = r.OriginalPositions
	}
	if r.Untruncated {
		m["truncate"] = false
	}
	if r.Type == "longrope" {
		m["short_factor"], m["long_factor"] = numbers(r.Short), numbers(r.Long)
	}
	return m
}

func numbers(xs []float64) []number {
	out := make([]number, len(xs))
	for i, x := range xs {
		out[i] = number(x)
	}
	return out
}
