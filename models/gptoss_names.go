package models

import "fmt"

// gptOSSRope is the default of transformers.
const gptOSSRope = `{"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0,
	"beta_slow": 1.0, "truncate": false, "original_max_position_embeddings": 4096}`

func gptOSSFamilies() []family {
	f := like(family{
		name: "gpt_oss", architecture: "GptOssForCausalLM", eps: 1e-5, theta: 150000, positions: 131072, pad: noPad,
		window: 128, experts: true, read: readGPTOSS, write: writeGPTOSS, fill: fillGPTOSS, check: checkGPTOSS,
		build: buildGPTOSS,
	})
	f.stored = storedNames{buffers: rotaryBuffers()} // experts are stored together
	return []family{f}
}

func readGPTOSS(r *reader, f *family, c *Config) {
	if !r.has("rope_parameters") && !r.has("rope_scaling") {
		r.raw["rope_parameters"] = []byte(gptOSSRope)
	}
	r.transformer(f, c)
	c.AttentionBias = r.bool("attention_bias", true)
	r.gemmaWindow(f, c, 2)
	c.Experts = r.count("num_local_experts", 128)
	c.ExpertsPerToken = r.count("num_experts_per_tok", 4)
	r.take("experts_per_token")      // the older name of the same
	r.take("initial_context_length") // rope_parameters include it
	if limit := r.float("swiglu_limit", 7); limit != 7 {
		r.fail("swiglu_limit", "not supported: got %v, want 7", limit)
	}
}

func fillGPTOSS(_ *family, c *Config) {
	fill(&c.Experts, 128)
	fill(&c.ExpertsPerToken, 4)
}

func checkGPTOSS(c Config) error {
	if c.Activation != "silu" {
		return fmt.Errorf("hidden_act: got %q, want silu: its experts have gates of their own", c.Activation)
	}
	return nil
}

func writeGPTOSS(c Config, f *family, m map[string]any) {
	writeGemma(c, f, m)
	m["sliding_window"] = f.window
	if c.Window > 0 {
		m["sliding_window"] = c.Window
	}
	m["layer_types"], _ = c.layerTypes()
	m["num_local_experts"], m["num_experts_per_tok"] = c.Experts, c.ExpertsPerToken
}
