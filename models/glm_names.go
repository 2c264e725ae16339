package models

import "github.com/galley-ml/galley/nn"

func glmFamilies() []family {
	glm := func(f family) family {
		f.eps, f.theta, f.positions, f.pad = 1.5625e-07, 1e4, 131072, 151329
		f.write, f.fill, f.build = writeGLM, fillGLM, buildGLM
		return like(f)
	}
	return []family{
		glm(family{name: "glm", architecture: "GlmForCausalLM", read: readGLM(true)}),
		glm(family{name: "glm4", architecture: "Glm4ForCausalLM", read: readGLM(false)}),
		like(family{
			name: "glm4_moe", architecture: "Glm4MoeForCausalLM", eps: 1e-5, theta: 1e4, positions: 131072,
			pad: noPad, experts: true, keys: deepseekKeys(), stored: deepseekNames(),
			read: readGLMMoE, write: writeGLMMoE, fill: fillGLMMoE, check: checkDenseFirst, build: buildGLMMoE,
		}),
	}
}

// readGLM returns a reader; bias is the default of attention_bias.
func readGLM(bias bool) func(r *reader, f *family, c *Config) {
	return func(r *reader, f *family, c *Config) {
		r.partLeftOut("0.5")
		r.transformer(f, c)
		c.AttentionBias = r.bool("attention_bias", bias)
	}
}

// fillGLM makes rotary pairs interleaved, in every model.
func fillGLM(_ *family, c *Config) { c.Rope.Interleaved = true }

func writeGLM(c Config, _ *family, m map[string]any) {
	writeTransformer(c, m)
	writeWholePart(c, m)
	m["attention_bias"] = c.AttentionBias
}

func readGLMMoE(r *reader, f *family, c *Config) {
	r.partLeftOut("0.5")
	r.transformer(f, c)
	c.AttentionBias = r.bool("attention_bias", false)
	c.QKRMSNorm = r.bool("use_qk_norm", false)
	r.expertsOf(c, 128, 8, 1408, 1, 1)
	c.Mixture.Routing = nn.Routing{
		Sigmoid: true, Groups: r.count("n_group", 1), TopGroups: r.count("topk_group", 1), GroupBest: 2,
		RawWeights: !r.bool("norm_topk_prob", true), SumShift: 1e-20, Scale: r.float("routed_scaling_factor", 1),
	}
	r.take("num_nextn_predict_layers")
}

func fillGLMMoE(_ *family, c *Config) {
	fill(&c.Mixture.Routing.Scale, 1)
	fill(&c.Mixture.Routing.SumShift, 1e-20)
	c.Mixture.Routing.Sigmoid, c.Mixture.Routing.GroupBest = true, 2
}

func writeGLMMoE(c Config, _ *family, m map[string]any) {
	writeTransformer(c, m)
	writeWholePart(c, m)
	m["attention_bias"], m["use_qk_norm"] = c.AttentionBias, c.QKRMSNorm
	writeExperts(c, m)
}
