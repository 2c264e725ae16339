package models

import "fmt"

func mambaFamily() family {
	f := mamba2Family()
	f.name, f.architecture, f.keys.heads, f.tied = "mamba", "MambaForCausalLM", "", true
	f.read, f.write, f.fill, f.check, f.build = readMamba, writeMamba, fillMamba, checkMamba, buildMamba
	return f
}

func readMamba(r *reader, _ *family, c *Config) {
	expand := r.float("expand", 2)
	c.Intermediate = r.count("intermediate_size", int(expand*float64(c.Hidden)))
	c.Heads = 1
	c.Recurrence = Recurrence{States: r.count("state_size", 16), Kernel: r.count("conv_kernel", 4),
		Bias: r.bool("use_bias", false), ConvBias: r.bool("use_conv_bias", true), StepRank: r.stepRank()}
	r.bool("residual_in_fp32", true)
	for _, key := range []string{"time_step_min", "time_step_max", "time_step_floor", "time_step_scale",
		"time_step_init_scheme", "rescale_prenorm_residual", "use_mambapy", "use_associative_scan"} {
		r.take(key) // they configure the initialization, or how transformers computes
	}
}

// stepRank reads time_step_rank; "auto", which is 0 here, means a sixteenth of the hidden size.
func (r *reader) stepRank() int {
	if string(r.raw["time_step_rank"]) == `"auto"` {
		r.take("time_step_rank")
	}
	return r.count("time_step_rank", 0)
}

func fillMamba(_ *family, c *Config) {
	fill(&c.Intermediate, 2*c.Hidden)
	fill(&c.Recurrence.States, 16)
	fill(&c.Recurrence.Kernel, 4)
	fill(&c.Recurrence.Chunk, mambaChunk)
	fill(&c.Recurrence.StepRank, (c.Hidden+15)/16)
}

func checkMamba(c Config) error {
	r := c.Recurrence
	if min(r.States, r.Kernel, r.Chunk, r.StepRank) < 1 || max(r.States, r.Kernel, r.StepRank) > maxSize {
		return fmt.Errorf("state_size %d, conv_kernel %d, time_step_rank %d: want 1 or more", r.States, r.Kernel,
			r.StepRank)
	}
	return nil
}

func writeMamba(c Config, f *family, m map[string]any) {
	r := c.Recurrence
	delete(m, f.keys.positions)
	m["expand"] = number(float64(c.Intermediate) / float64(c.Hidden))
	if c.Intermediate%c.Hidden == 0 {
		m["expand"] = c.Intermediate / c.Hidden
	}
	m["intermediate_size"], m["state_size"], m["conv_kernel"] = c.Intermediate, r.States, r.Kernel
	m["time_step_rank"], m["use_bias"], m["use_conv_bias"] = r.StepRank, r.Bias, r.ConvBias
}
