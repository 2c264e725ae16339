package models

import "fmt"

func falconFamily() family {
	keys := llamaKeys()
	keys.intermediate, keys.eps, keys.activation = "ffn_hidden_size", "layer_norm_epsilon", "activation"
	return family{
		name: "falcon", architecture: "FalconForCausalLM", base: "transformer.",
		embedding: "word_embeddings.weight", keys: keys,
		eps: 1e-5, theta: 1e4, positions: 2048, activation: "gelu", tied: true, pad: unpadded, rotary: true,
		read: readFalcon, write: writeFalcon, fill: fillFalcon, check: checkFalcon, build: buildFalcon,
		stored: storedNames{buffers: rotaryBuffers()},
	}
}

func readFalcon(r *reader, f *family, c *Config) {
	c.Intermediate = r.count("ffn_hidden_size", 4*c.Hidden)
	kvHeads := r.count("num_kv_heads", c.Heads)
	newer, oneKey := r.bool("new_decoder_architecture", false), r.bool("multi_query", true)
	switch {
	case newer:
		c.QKV, c.KVHeads = QKVGroups, kvHeads
	case oneKey:
		c.QKV, c.KVHeads = QKVOneKey, 1
	default:
		c.QKV, c.KVHeads = QKVHeads, c.Heads
	}
	norms := r.count("num_ln_in_parallel_attn", map[bool]int{true: 2, false: 1}[newer])
	c.SequentialBlocks = !r.bool("parallel_attn", true) && !newer
	c.OneNorm = !c.SequentialBlocks && (!newer || norms == 1)
	if r.bool("alibi", false) {
		r.fail("alibi", "not supported: got true, want false")
	}
	c.AttentionBias = r.bool("bias", false)
	c.Dropout = Dropout{Attention: r.probability("attention_dropout"), Residual: r.probability("hidden_dropout")}
	r.rope(f, c)
	r.take("apply_residual_connection_post_layernorm") // transformers ignores it
	r.take("auto_map")
}

func fillFalcon(_ *family, c *Config) { fill(&c.Intermediate, 4*c.Hidden) }

func checkFalcon(c Config) error {
	want := map[QKVLayout]int{QKVOneKey: 1, QKVHeads: c.Heads, QKVGroups: c.KVHeads}[c.QKV]
	if c.KVHeads != want {
		return fmt.Errorf("num_kv_heads %d: want %d, as the matrix of queries, keys and values has them", c.KVHeads,
			want)
	}
	if c.Heads*c.HeadDim != c.Hidden {
		return fmt.Errorf("hidden_size %d: want num_attention_heads %d times their size %d", c.Hidden, c.Heads,
			c.HeadDim)
	}
	return nil
}

func writeFalcon(c Config, _ *family, m map[string]any) {
	m["rope_parameters"] = c.Rope.written()
	newer := c.QKV == QKVGroups
	m["new_decoder_architecture"], m["multi_query"] = newer, c.QKV == QKVOneKey
	m["num_kv_heads"], m["parallel_attn"], m["alibi"] = c.KVHeads, !c.SequentialBlocks, false
	m["num_ln_in_parallel_attn"] = nil
	if newer && c.OneNorm {
		m["num_ln_in_parallel_attn"] = 1
	}
	m["bias"] = c.AttentionBias
	m["attention_dropout"], m["hidden_dropout"] = number(c.Dropout.Attention), number(c.Dropout.Residual)
}
