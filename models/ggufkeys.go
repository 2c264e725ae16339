package models

import "fmt"

func attentionBias(m *metadata, config map[string]any) {
	_, config["attention_bias"] = m.Tensor("blk.0.attn_output.bias")
}

// queryBias: there are biases of queries, keys and values, but none of what attention returns.
func queryBias(m *metadata, config map[string]any) {
	_, config["attention_bias"] = m.Tensor("blk.0.attn_q.bias")
}

func noAttentionBias(c Config) error {
	if c.AttentionBias {
		return fmt.Errorf("biases of %s's attention are not written for llama.cpp", c.Family)
	}
	return nil
}

func noHeadNorms(c Config) error {
	if c.QKLayerNorm {
		return fmt.Errorf("%s with norms of heads is not written for llama.cpp", c.Family)
	}
	return nil
}

// equalHeads: config.json has no words for heads of another number or size.
func equalHeads(m *metadata, config map[string]any) {
	heads, hidden := m.size("attention.head_count", 0), m.size("embedding_length", 0)
	if config["num_key_value_heads"] != heads {
		m.fail("attention.head_count_kv", "got %v, want %d", config["num_key_value_heads"], heads)
	}
	if config["head_dim"] != hidden/heads {
		m.fail("attention.key_length", "got %v, want %d", config["head_dim"], hidden/heads)
	}
	delete(config, "num_key_value_heads")
	delete(config, "head_dim")
}

// windowMeta says which layers have a window.
func windowMeta(c Config) map[string]any {
	return map[string]any{"attention.sliding_window": uint32(c.Window),
		"attention.sliding_window_pattern": c.WindowLayers}
}

// readWindows returns a reader of what windowMeta says; a number n in place of the list, or by default, means
// all layers but every n-th.
func readWindows(every int) func(m *metadata, config map[string]any) {
	return func(m *metadata, config map[string]any) {
		layers := config["num_hidden_layers"].(int)
		config["sliding_window"] = m.size("attention.sliding_window", 0)
		const key = "attention.sliding_window_pattern"
		types := make([]string, min(layers, maxLayers))
		list, isList := m.Meta[m.arch+"."+key].([]any)
		n := 1
		if isList {
			m.take(key)
		} else {
			n = m.size(key, every)
		}
		if isList && len(list) < layers {
			m.fail(key, "got %d layers, want %d", len(list), layers)
			return
		}
		for i := range types {
			window := (i+1)%n != 0
			if isList {
				window = list[i] == true || list[i] == uint64(1) || list[i] == int64(1)
			}
			types[i] = map[bool]string{true: "sliding_attention", false: "full_attention"}[window]
		}
		config["layer_types"] = types
	}
}

// graniteScales maps llama.cpp's names of granite's multipliers to those of config.json.
func graniteScales() map[string]string {
	return map[string]string{
		"attention.scale": "attention_multiplier", "embedding_scale": "embedding_multiplier",
		"residual_scale": "residual_multiplier", "logit_scale": "logits_scaling",
	}
}

func graniteMeta(c Config) map[string]any {
	by := c.Multipliers
	return map[string]any{"attention.scale": float32(by.Attention), "embedding_scale": float32(by.Embedding),
		"residual_scale": float32(by.Residual), "logit_scale": float32(1 / by.Logits)}
}

func readGraniteMeta(m *metadata, config map[string]any) {
	attentionBias(m, config)
	for key, word := range graniteScales() {
		config[word] = m.float(key, 1)
	}
}
