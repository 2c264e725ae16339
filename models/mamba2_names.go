package models

import (
	"encoding/json"
	"fmt"
	"math"
)

func mamba2Family() family {
	return family{
		name: "mamba2", architecture: "Mamba2ForCausalLM", base: "backbone.", embedding: "embeddings.weight",
		keys: keys{
			hidden: "hidden_size", intermediate: "expand", layers: "num_hidden_layers", heads: "num_heads",
			positions: "max_position_embeddings", eps: "layer_norm_epsilon", activation: "hidden_act",
		},
		eps: 1e-5, positions: 1, activation: "silu", pad: unpadded, recurrent: true,
		read: readMamba2, write: writeMamba2, fill: fillMamba2, check: checkMamba2, build: buildMamba2,
	}
}

func readMamba2(r *reader, _ *family, c *Config) {
	expand := r.float("expand", 2)
	c.Intermediate = int(expand * float64(c.Hidden))
	c.HeadDim = r.count("head_dim", 64)
	c.Recurrence = Recurrence{
		States: r.count("state_size", 128), Groups: r.count("n_groups", 8), Kernel: r.count("conv_kernel", 4),
		Chunk: r.count("chunk_size", 256), Bias: r.bool("use_bias", false), ConvBias: r.bool("use_conv_bias",
			true),
	}
	c.Recurrence.MinStep, c.Recurrence.MaxStep = r.stepLimit()
	if !r.bool("rms_norm", true) {
		r.fail("rms_norm", "not supported: got false, want true")
	}
	r.bool("residual_in_fp32",
		true) // not needed: hidden states keep their dtype, and are rounded like every value
	for _, key := range []string{"time_step_min", "time_step_max", "time_step_floor", "time_step_rank",
		"rescale_prenorm_residual"} {
		r.take(key) // they configure the initialization
	}
}

// stepLimit reads the bounds of time steps, the second of which may be infinite: a number, or as transformers
// writes it.
func (r *reader) stepLimit() (low, high float64) {
	limits := get(r, "time_step_limit", "two numbers", []json.RawMessage(nil))
	if limits == nil {
		return 0, math.Inf(1)
	}
	if len(limits) != 2 {
		r.fail("time_step_limit", "got %d numbers, want two", len(limits))
		return 0, math.Inf(1)
	}
	if json.Unmarshal(limits[0], &low) != nil {
		r.fail("time_step_limit", "got %s, want a number", short(limits[0]))
	}
	var named struct {
		Float string `json:"__float__"`
	}
	if json.Unmarshal(limits[1], &high) == nil {
		return low, high
	}
	if json.Unmarshal(limits[1], &named) != nil || named.Float != "Infinity" {
		r.fail("time_step_limit", "got %s, want a number or Infinity", short(limits[1]))
	}
	return low, math.Inf(1)
}

func fillMamba2(_ *family, c *Config) {
	fill(&c.Intermediate, c.Heads*c.HeadDim)
	fill(&c.Recurrence.States, 128)
	fill(&c.Recurrence.Groups, 1)
	fill(&c.Recurrence.Kernel, 4)
	fill(&c.Recurrence.Chunk, 256)
	fill(&c.Recurrence.MaxStep, math.Inf(1))
}

func checkMamba2(c Config) error {
	r := c.Recurrence
	switch {
	case c.KVHeads != c.Heads || c.Heads*c.HeadDim != c.Intermediate:
		return fmt.Errorf("num_heads %d, head_dim %d: together want expand times hidden_size, %d",
			c.Heads, c.HeadDim, c.Intermediate)
	case r.Groups < 1 || c.Heads%max(1, r.Groups) != 0:
		return fmt.Errorf("num_heads %d is not a multiple of n_groups %d", c.Heads, r.Groups)
	case min(r.States, r.Kernel, r.Chunk) < 1 || max(r.States, r.Groups, r.Kernel, r.Chunk) > maxSize:
		return fmt.Errorf("state_size %d, conv_kernel %d, chunk_size %d: want 1 or more",
			r.States, r.Kernel, r.Chunk)
	case !(r.MinStep >= 0) || !(r.MaxStep > r.MinStep):
		return fmt.Errorf("time_step_limit: got %v and %v, want the first below the second",
			r.MinStep, r.MaxStep)
	}
	return nil
}

func writeMamba2(c Config, f *family, m map[string]any) {
	r := c.Recurrence
	delete(m, f.keys.positions)
	m["expand"] = number(float64(c.Intermediate) / float64(c.Hidden))
	if c.Intermediate%c.Hidden == 0 {
		m["expand"] = c.Intermediate / c.Hidden
	}
	m["head_dim"], m["state_size"], m["n_groups"] = c.HeadDim, r.States, r.Groups
	m["conv_kernel"], m["chunk_size"] = r.Kernel, r.Chunk
	m["use_bias"], m["use_conv_bias"] = r.Bias, r.ConvBias
	limits := []any{number(r.MinStep), map[string]string{"__float__": "Infinity"}}
	if !math.IsInf(r.MaxStep, 1) {
		limits[1] = number(r.MaxStep)
	}
	m["time_step_limit"] = limits
}
