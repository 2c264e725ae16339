package models

import (
	"fmt"
	"strings"
)

func ernieFamilies() []family {
	mixture := llamaKeys()
	mixture.experts, mixture.perToken = "moe_num_experts", "moe_k"
	return []family{
		like(family{
			name: "ernie4_5", architecture: "Ernie4_5ForCausalLM", eps: 1e-5, theta: 5e5, positions: 131072,
			tied: true,
			pad:  0, read: readErnie, write: writeErnie, fill: fillErnie,
		}),
		like(family{
			name: "ernie4_5_moe", architecture: "Ernie4_5_MoeForCausalLM", eps: 1e-5, theta: 5e5,
			positions: 131072, tied: true,
			pad: 0, experts: true, keys: mixture, build: buildErnieMoE,
			read: readErnieMoE, write: writeErnieMoE, fill: fillErnieMoE, check: checkErnieMoE,
			stored: ernieNames(),
		}),
	}
}

// ernieNames ignores the multi-token prediction layers, as transformers does.
func ernieNames() storedNames {
	s := plainExperts()
	s.ignored = func(_ Config, name string) bool { return strings.Contains(name, "mtp") }
	return s
}

func readErnie(r *reader, f *family, c *Config) {
	r.transformer(f, c)
	bias := r.bool("use_bias", false)
	c.AttentionBias, c.MLPBias = bias, bias
}

// fillErnie makes rotary pairs interleaved, in every model.
func fillErnie(_ *family, c *Config) { c.Rope.Interleaved = true }

func writeErnie(c Config, _ *family, m map[string]any) {
	writeTransformer(c, m)
	m["use_bias"] = c.AttentionBias
}

func readErnieMoE(r *reader, f *family, c *Config) {
	readErnie(r, f, c)
	c.Experts = r.count("moe_num_experts", 64)
	c.ExpertsPerToken = r.count("moe_k", 6)
	c.Mixture.Width = r.count("moe_intermediate_size", 1536)
	c.Mixture.Shared = r.natural("moe_num_shared_experts", 2)
	c.Mixture.Routing.SumFloor = r.float("moe_norm_min", 1e-12)
	r.oneOf("moe_gate", "topk")
	if !r.bool("use_rmsnorm", true) {
		r.fail("use_rmsnorm", "not supported: got false, want true")
	}
	for _, key := range []string{"moe_capacity", "moe_use_aux_free", "num_nextn_predict_layers"} {
		r.take(key) // training settings: no token is dropped here, and the selection bias is among the weights
	}
	layers := expertLayers{r.natural("moe_layer_start_index", 1), r.int("moe_layer_end_index", -1),
		r.count("moe_layer_interval", 1)}
	if layers.last == -1 {
		layers.last = c.Layers - 1
	}
	c.Mixture.Dense = c.denseLayers(layers.dense)
}

// expertLayers describes which layers have experts: every interval-th one of those from first to last.
type expertLayers struct{ first, last, interval int }

func (e expertLayers) dense(i int) bool {
	return (i+1)%max(1, e.interval) != 0 || i < e.first || i > e.last
}

// expertLayers returns the layers with experts in the form of config.json; false if it has no such form.
func (c Config) expertLayers() (expertLayers, bool) {
	e := expertLayers{first: c.Layers, last: -1}
	for i := range c.Layers {
		if !c.denseAt(i) {
			e.first, e.last = min(e.first, i), i
		}
	}
	for e.interval = 1; e.interval <= c.Layers; e.interval++ {
		same := true
		for i := range c.Layers {
			same = same && e.dense(i) == c.denseAt(i)
		}
		if same {
			return e, true
		}
	}
	return e, false
}

func fillErnieMoE(f *family, c *Config) {
	fillErnie(f, c)
	fill(&c.Experts, 64)
	fill(&c.ExpertsPerToken, 6)
	fill(&c.Mixture.Routing.SumFloor, 1e-12)
}

func checkErnieMoE(c Config) error {
	if _, ok := c.expertLayers(); !ok {
		return fmt.Errorf("ernie4_5_moe: layers with experts are not every n-th of a range: "+
			"got plain ones %v", c.Mixture.Dense)
	}
	return nil
}

func writeErnieMoE(c Config, f *family, m map[string]any) {
	writeErnie(c, f, m)
	m["moe_num_experts"], m["moe_k"] = c.Experts, c.ExpertsPerToken
	m["moe_intermediate_size"], m["moe_num_shared_experts"] = c.expertWidth(), c.Mixture.Shared
	m["moe_norm_min"] = number(c.Mixture.Routing.SumFloor)
	e, _ := c.expertLayers()
	m["moe_layer_start_index"], m["moe_layer_end_index"], m["moe_layer_interval"] = e.first, e.last,
		e.interval
	if e.last < 0 { // -1 would mean all
		m["moe_layer_end_index"] = c.Layers - 1
	}
}
