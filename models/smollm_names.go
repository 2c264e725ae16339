package models

import "fmt"

func readSmolLM(r *reader, f *family, c *Config) {
	readLlama(r, f, c)
	every := r.count("no_rope_layer_interval", 4)
	turning := get(r, "no_rope_layers", "a list of 0 and 1", []int(nil))
	if turning != nil && len(turning) != c.Layers {
		r.fail("no_rope_layers", "got %d, want one for each of %d layers", len(turning), c.Layers)
		return
	}
	c.Unturned = c.denseLayers(func(i int) bool {
		if turning != nil {
			return turning[i] == 0
		}
		return (i+1)%max(1, every) == 0
	})
	if r.bool("use_sliding_window", false) {
		r.fail("use_sliding_window", "not supported: got true, want false")
	}
	r.take("sliding_window")
	for _, windowed := range r.layerTypes(c, func(int) bool { return false }) {
		if windowed {
			r.fail("layer_types", "not supported: got sliding_attention, want full_attention")
		}
	}
}

func checkSmolLM(c Config) error {
	if n := len(c.Unturned); n > 0 && n != c.Layers {
		return fmt.Errorf("no_rope_layers: got %d, want one for each of %d layers", n, c.Layers)
	}
	return nil
}

func writeSmolLM(c Config, f *family, m map[string]any) {
	writeLlama(c, f, m)
	if c.HeadDim*c.Heads == c.Hidden {
		delete(m, "head_dim")
	}
	turning := make([]int, c.Layers)
	for i := range turning {
		if i >= len(c.Unturned) || !c.Unturned[i] {
			turning[i] = 1
		}
	}
	m["no_rope_layers"] = turning
}
