package models

import (
	"fmt"
	"slices"
)

// rawWeights: llama.cpp takes the weights of experts as they are, or divides them by their sum, by family.
func rawWeights(want bool) func(c Config) error {
	return func(c Config) error {
		if c.Mixture.Routing.RawWeights != want {
			return fmt.Errorf("norm_topk_prob %v of %s is not written for llama.cpp: want %v", want, c.Family, !want)
		}
		return nil
	}
}

func qwenExperts(c Config) map[string]any {
	meta := map[string]any{"expert_feed_forward_length": uint32(c.expertWidth())}
	if c.Family == "qwen2_moe" {
		meta["expert_shared_feed_forward_length"] = uint32(c.Mixture.SharedWidth)
	}
	return meta
}

func readQwenExperts(m *metadata, config map[string]any) {
	config["moe_intermediate_size"] = m.size("expert_feed_forward_length", 0)
	config["norm_topk_prob"] = config["model_type"] == "qwen3_moe"
	if config["model_type"] == "qwen2_moe" {
		config["shared_expert_intermediate_size"] = m.size("expert_shared_feed_forward_length", 0)
	}
}

// fitsOLMoE: llama.cpp has norms of as many heads of keys as of queries, and no bound.
func fitsOLMoE(c Config) error {
	if c.QKVBound != 0 || c.KVHeads != c.Heads {
		return fmt.Errorf("clip_qkv %v, num_key_value_heads %d of olmoe are not written for llama.cpp: want none "+
			"and %d", c.QKVBound, c.KVHeads, c.Heads)
	}
	if err := noAttentionBias(c); err != nil {
		return err
	}
	return rawWeights(true)(c)
}

func readOLMoEMeta(m *metadata, config map[string]any) {
	config["norm_topk_prob"] = false
	if m.size("expert_feed_forward_length", config["intermediate_size"].(int)) != config["intermediate_size"] {
		m.fail("expert_feed_forward_length", "want feed_forward_length, %v", config["intermediate_size"])
	}
}

// leading returns how many layers without experts come first; ok is false where others follow.
func (c Config) leading() (n int, ok bool) {
	for n < c.Layers && c.denseAt(n) {
		n++
	}
	return n, n < c.Layers && !slices.Contains(c.Mixture.Dense[min(n, len(c.Mixture.Dense)):], true)
}

// fitsErnieMoE: llama.cpp has experts in all layers but the first ones.
func fitsErnieMoE(c Config) error {
	if _, ok := c.leading(); !ok {
		return fmt.Errorf("moe_layer_interval or moe_layer_end_index of ernie4_5_moe are not written for " +
			"llama.cpp: want experts in all layers but the first ones")
	}
	return noAttentionBias(c)
}

func ernieMoEMeta(c Config) map[string]any {
	first, _ := c.leading()
	return map[string]any{"expert_feed_forward_length": uint32(c.expertWidth()),
		"expert_shared_feed_forward_length": uint32(c.Mixture.Shared * c.expertWidth()),
		"interleave_moe_layer_step":         uint32(1), "leading_dense_block_count": uint32(first)}
}

func readErnieMoEMeta(m *metadata, config map[string]any) {
	width := m.size("expert_feed_forward_length", 0)
	shared := m.natural("expert_shared_feed_forward_length")
	if shared%width != 0 {
		m.fail("expert_shared_feed_forward_length", "got %d, want a multiple of %d", shared, width)
	}
	config["moe_intermediate_size"], config["moe_num_shared_experts"] = width, shared/width
	if n := m.natural("expert_shared_count"); n > 0 && n != shared/width {
		m.fail("expert_shared_count", "got %d, want %d of expert_feed_forward_length", n, shared/width)
	}
	config["moe_layer_interval"] = m.size("interleave_moe_layer_step", 1)
	config["moe_layer_start_index"] = m.natural("leading_dense_block_count")
}

// sigmoidGating is llama.cpp's number of routers whose scores are sigmoids.
const sigmoidGating = 2

// fitsDeepseek: llama.cpp takes the two best experts of a group for it, and has no biases.
func fitsDeepseek(c Config) error {
	r := c.Mixture.Routing
	if r.Groups > 1 && r.GroupBest != 2 || !c.Rope.Interleaved {
		return fmt.Errorf("topk_method group_limited_greedy or rope_interleave false of %s are not written for "+
			"llama.cpp", c.Family)
	}
	if err := noAttentionBias(c); err != nil {
		return err
	}
	return fitsGLMMoE(c)
}

func readDeepseekMeta(m *metadata, config map[string]any) {
	if config["model_type"] == "deepseek_v3" {
		readSharedExperts(m, config, sigmoidGating)
		return
	}
	readSharedExperts(m, config, 1)
	if config["norm_topk_prob"] == true || config["n_group"] != 1 {
		m.fail("expert_weights_norm", "not supported in deepseek_v2: want weights that are not divided by their "+
			"sum, and no groups")
	}
}

// latentMeta returns the sizes of latent attention, as keys of the latent vector that all heads share.
func latentMeta(c Config) map[string]any {
	l := c.Latent
	return map[string]any{"attention.head_count_kv": uint32(1), "attention.q_lora_rank": uint32(l.QRank),
		"attention.kv_lora_rank": uint32(l.KVRank), "attention.key_length": uint32(l.KVRank + l.Turned),
		"attention.value_length": uint32(l.KVRank), "attention.key_length_mla": uint32(l.Plain + l.Turned),
		"attention.value_length_mla": uint32(l.Value), "rope.dimension_count": uint32(l.Turned)}
}

// readLatent reads what latentMeta writes; older files keep keys and values in one tensor.
func readLatent(m *metadata, config map[string]any) {
	rank, turned := m.size("attention.kv_lora_rank", 0), m.size("rope.dimension_count", 0)
	key, value := m.size("attention.key_length_mla", 0), m.size("attention.value_length_mla", 0)
	m.alike("attention.head_count_kv", 1)
	m.alike("attention.key_length", rank+turned)
	m.alike("attention.value_length", rank)
	if key <= turned {
		m.fail("attention.key_length_mla", "got %d, want more than rope.dimension_count %d", key, turned)
	}
	config["kv_lora_rank"], config["v_head_dim"] = rank, value
	config["qk_nope_head_dim"], config["qk_rope_head_dim"] = key-turned, turned
	config["q_lora_rank"] = orNull(m.natural("attention.q_lora_rank"))
}

// fitsGLMMoE: llama.cpp wants a shared expert, and experts in all layers but the first ones.
func fitsGLMMoE(c Config) error {
	if _, ok := c.leading(); !ok || c.Mixture.Shared == 0 {
		return fmt.Errorf("%s without experts or without shared ones is not written for llama.cpp", c.Family)
	}
	return nil
}

func sharedExpertsMeta(c Config) map[string]any {
	first, _ := c.leading()
	r := c.Mixture.Routing
	meta := map[string]any{"expert_feed_forward_length": uint32(c.expertWidth()),
		"expert_shared_count": uint32(c.Mixture.Shared), "leading_dense_block_count": uint32(first),
		"expert_weights_scale": float32(r.Scale), "expert_weights_norm": !r.RawWeights,
		"expert_gating_func": uint32(1)}
	if r.Sigmoid {
		meta["expert_gating_func"] = uint32(sigmoidGating)
	}
	if r.Groups > 1 {
		meta["expert_group_count"], meta["expert_group_used_count"] = uint32(r.Groups), uint32(r.TopGroups)
	}
	return meta
}

// readSharedExperts reads what sharedExpertsMeta writes; gating is how experts must be chosen.
func readSharedExperts(m *metadata, config map[string]any, gating int) {
	config["moe_intermediate_size"] = m.size("expert_feed_forward_length", 0)
	config["n_shared_experts"] = m.size("expert_shared_count", 0)
	config["first_k_dense_replace"] = m.natural("leading_dense_block_count")
	config["routed_scaling_factor"] = m.float("expert_weights_scale", 1)
	config["norm_topk_prob"] = m.bool("expert_weights_norm", false)
	m.alike("expert_gating_func", gating)
	config["n_group"] = m.size("expert_group_count", 1)
	config["topk_group"] = m.size("expert_group_used_count", 1)
}

func readGLMMoEMeta(m *metadata, config map[string]any) {
	queryBias(m, config)
	_, config["use_qk_norm"] = m.Tensor("blk.0.attn_q_norm.weight")
	readSharedExperts(m, config, sigmoidGating)
}
