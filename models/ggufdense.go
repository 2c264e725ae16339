package models

import "fmt"

func olmoMeta(c Config) map[string]any {
	if c.QKVBound == 0 {
		return nil
	}
	return map[string]any{"attention.clamp_kqv": float32(c.QKVBound)}
}

func readOLMoMeta(m *metadata, config map[string]any) {
	if _, ok := m.Meta[m.arch+".attention.clamp_kqv"]; ok {
		config["clip_qkv"] = m.float("attention.clamp_kqv", 0)
	}
}

func fitsOLMo3(c Config) error {
	if c.RopeLocal.Theta != c.Rope.Theta {
		return fmt.Errorf("rope_theta %v and %v of olmo3's layers are not written for llama.cpp: want the same",
			c.Rope.Theta, c.RopeLocal.Theta)
	}
	return noAttentionBias(c)
}

// fitsGemma2: llama.cpp knows that every other layer has a window.
func fitsGemma2(c Config) error {
	for i, window := range c.WindowLayers {
		if window != (i%2 == 0) {
			return fmt.Errorf("layer_types of gemma2 are not written for llama.cpp: want a window in every other " +
				"layer, the first among them")
		}
	}
	if c.Window == 0 || c.ScoreCap == 0 || c.LogitCap == 0 {
		return fmt.Errorf("gemma2 without a window or caps is not written for llama.cpp")
	}
	return fitsQueryScalar(c)
}

// gemma27B is the layers of the largest gemma2 and gemma3_text.
func gemma27B(family any) int { return map[any]int{"gemma2": 46, "gemma3_text": 62}[family] }

// fitsQueryScalar: llama.cpp knows by the number of layers what queries are divided by.
func fitsQueryScalar(c Config) error {
	want := c.HeadDim
	if c.Layers == gemma27B(c.Family) {
		want = c.Hidden / c.Heads
	}
	if c.queryScalar() != float64(want) {
		return fmt.Errorf("query_pre_attn_scalar %v of %s is not written for llama.cpp: want %d",
			c.queryScalar(), c.Family, want)
	}
	return noAttentionBias(c)
}

func readQueryScalar(config map[string]any) {
	config["query_pre_attn_scalar"] = config["head_dim"]
	if config["num_hidden_layers"] == gemma27B(config["model_type"]) {
		config["query_pre_attn_scalar"] = config["hidden_size"].(int) / config["num_attention_heads"].(int)
	}
}

func gemma2Meta(c Config) map[string]any {
	return map[string]any{"attention.sliding_window": uint32(c.Window),
		"attn_logit_softcapping": float32(c.ScoreCap), "final_logit_softcapping": float32(c.LogitCap)}
}

func readGemma2Meta(m *metadata, config map[string]any) {
	config["sliding_window"] = m.size("attention.sliding_window", 4096)
	config["attn_logit_softcapping"] = m.float("attn_logit_softcapping", 50)
	config["final_logit_softcapping"] = m.float("final_logit_softcapping", 30)
	readQueryScalar(config)
}

func fitsGemma3(c Config) error {
	if c.Window == 0 || c.ScoreCap != 0 {
		return fmt.Errorf("gemma3_text without a window or with capped scores is not written for llama.cpp")
	}
	return fitsQueryScalar(c)
}

func gemma3Meta(c Config) map[string]any {
	meta := windowMeta(c)
	meta["rope.freq_base_swa"] = float32(c.RopeLocal.Theta)
	if c.LogitCap != 0 {
		meta["final_logit_softcapping"] = float32(c.LogitCap)
	}
	return meta
}

func readGemma3Meta(m *metadata, config map[string]any) {
	readWindows(6)(m, config)
	config["rope_local_base_freq"] = m.float("rope.freq_base_swa", 10000)
	if _, ok := m.Meta[m.arch+".final_logit_softcapping"]; ok {
		config["final_logit_softcapping"] = m.float("final_logit_softcapping", 0)
	}
	readQueryScalar(config)
}

func readPhi3Meta(m *metadata, config map[string]any) {
	config["original_max_position_embeddings"] = config["max_position_embeddings"]
	config["pad_token_id"] = nil
	delete(config, "head_dim")
}

// fitsSmolLM3: llama.cpp knows that every fourth layer has no positions.
func fitsSmolLM3(c Config) error {
	for i := range c.Layers {
		if turns := i >= len(c.Unturned) || !c.Unturned[i]; turns != ((i+1)%4 != 0) {
			return fmt.Errorf("no_rope_layers of smollm3 are not written for llama.cpp: want every fourth layer")
		}
	}
	return noAttentionBias(c)
}

// fitsCohere: layers of cohere2 without a window have no positions.
func fitsCohere(c Config) error {
	if c.Family == "cohere2" && c.Window == 0 {
		return fmt.Errorf("cohere2 without a window is not written for llama.cpp")
	}
	if err := noHeadNorms(c); err != nil {
		return err
	}
	return noAttentionBias(c)
}

func cohereMeta(c Config) map[string]any {
	meta := map[string]any{}
	if c.Family == "cohere2" {
		meta = windowMeta(c)
	}
	meta["logit_scale"] = float32(c.Multipliers.Logits)
	return meta
}

func readCohereMeta(m *metadata, config map[string]any) {
	if config["model_type"] == "cohere2" {
		readWindows(4)(m, config)
	}
	config["logit_scale"] = m.float("logit_scale", 1)
}

func fitsGLM(c Config) error {
	if c.Heads*c.HeadDim != c.Hidden {
		return fmt.Errorf("head_dim %d of glm is not written for llama.cpp: want hidden_size %d / "+
			"num_attention_heads %d", c.HeadDim, c.Hidden, c.Heads)
	}
	return nil
}

func fitsGPT2(c Config) error {
	if c.UnscaledAttention || c.ScaleByLayer {
		return fmt.Errorf("scale_attn_weights false or scale_attn_by_inverse_layer_idx of gpt2 are not written " +
			"for llama.cpp")
	}
	return nil
}

func fitsGPTNeoX(c Config) error {
	if !c.AttentionBias {
		return fmt.Errorf("gpt_neox without biases of attention is not written for llama.cpp")
	}
	return nil
}

func gptNeoXMeta(c Config) map[string]any {
	return map[string]any{"use_parallel_residual": !c.SequentialBlocks}
}

func readGPTNeoXMeta(m *metadata, config map[string]any) {
	equalHeads(m, config)
	config["use_parallel_residual"] = m.bool("use_parallel_residual", true)
}

func fitsFalcon(c Config) error {
	if c.SequentialBlocks {
		return fmt.Errorf("falcon whose MLP follows attention is not written for llama.cpp")
	}
	return noAttentionBias(c)
}

// readFalconMeta: heads of keys that several heads of queries share, or two norms, are of the newer form.
func readFalconMeta(m *metadata, config map[string]any) {
	keys := config["num_key_value_heads"].(int)
	config["num_key_value_heads"] = config["num_attention_heads"]
	equalHeads(m, config)
	if layout := m.string("tensor_data_layout", "jploski"); layout != "jploski" {
		m.fail("tensor_data_layout", "got %q, want jploski: all queries, all keys, all values", layout)
	}
	_, two := m.Tensor("blk.0.attn_norm_2.weight")
	config["num_kv_heads"], config["multi_query"] = keys, keys == 1
	config["new_decoder_architecture"] = keys > 1 || two
	if keys > 1 && !two {
		config["num_ln_in_parallel_attn"] = 1
	}
}

func useBias(m *metadata, config map[string]any) {
	_, config["use_bias"] = m.Tensor("blk.0.attn_output.bias")
	delete(config, "head_dim")
}

func fitsStableLM(c Config) error {
	if c.QKLayerNorm || !c.SequentialBlocks {
		return fmt.Errorf("stablelm with norms of heads or with blocks side by side is not written for llama.cpp")
	}
	return nil
}

func stableLMMeta(c Config) map[string]any { return map[string]any{"use_parallel_residual": false} }

func readStableLMMeta(m *metadata, config map[string]any) {
	_, config["use_qkv_bias"] = m.Tensor("blk.0.attn_q.bias")
	m.take("use_parallel_residual")
	config["use_parallel_residual"] = false
	delete(config, "head_dim")
}
