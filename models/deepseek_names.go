package models

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/nn"
)

func deepseekFamilies() []family {
	keys := deepseekKeys()
	deepseek := func(f family) family {
		f.eps, f.theta, f.pad, f.experts, f.keys = 1e-6, 1e4, noPad, true, keys
		f.build, f.check, f.fill, f.stored = buildDeepseek, checkDeepseek, fillDeepseek, deepseekNames()
		f.headDim = func(c Config) int { return c.Latent.Turned }
		return like(f)
	}
	return []family{
		deepseek(family{
			name: "deepseek_v2", architecture: "DeepseekV2ForCausalLM", positions: 2048, read: readDeepseekV2,
			write: writeDeepseekV2,
		}),
		deepseek(family{
			name: "deepseek_v3", architecture: "DeepseekV3ForCausalLM", positions: 4096, read: readDeepseekV3,
			write: writeDeepseekV3,
		}),
	}
}

func deepseekKeys() keys {
	k := llamaKeys()
	k.experts = "n_routed_experts"
	return k
}

// deepseekNames ignores the multi-token prediction layers, as transformers does.
func deepseekNames() storedNames {
	s := plainExperts()
	s.ignored = func(c Config, name string) bool {
		rest, ok := strings.CutPrefix(name, "model.layers.")
		number, _, _ := strings.Cut(rest, ".")
		i, err := strconv.Atoi(number)
		return ok && err == nil && i >= c.Layers
	}
	return s
}

// deepseek reads what both versions have; the arguments are the defaults of transformers.
func (r *reader) deepseek(f *family, c *Config, experts, perToken, width, shared, dense int) {
	c.Intermediate = r.size("intermediate_size")
	c.KVHeads = r.count("num_key_value_heads", 0)
	c.Dropout.Attention = r.probability("attention_dropout")
	c.AttentionBias = r.bool("attention_bias", false)
	c.Latent = Latent{
		QRank: r.rank("q_lora_rank", 1536), KVRank: r.count("kv_lora_rank", 512),
		Plain: r.count("qk_nope_head_dim", 128), Turned: r.count("qk_rope_head_dim", 64),
		Value: r.count("v_head_dim", 128),
	}
	c.HeadDim = c.Latent.Plain + c.Latent.Turned
	if n := r.count("head_dim", c.Latent.Turned); n != c.Latent.Turned {
		r.fail("head_dim", "got %d, want qk_rope_head_dim %d", n, c.Latent.Turned)
	}
	if n := r.count("qk_head_dim", c.HeadDim); n != c.HeadDim {
		r.fail("qk_head_dim", "got %d, want qk_nope_head_dim and qk_rope_head_dim together, %d", n, c.HeadDim)
	}
	r.rope(f, c)
	r.expertsOf(c, experts, perToken, width, shared, dense)
	r.only("moe_layer_freq", 1)
	r.take("ep_size")
	r.take("num_nextn_predict_layers")
	r.take("seq_aux")
	r.take("aux_loss_alpha")
}

// expertsOf reads the number of experts, their size, and the first layer with experts.
func (r *reader) expertsOf(c *Config, experts, perToken, width, shared, dense int) {
	c.Experts = r.count("n_routed_experts", experts)
	c.ExpertsPerToken = r.count("num_experts_per_tok", perToken)
	c.Mixture.Width = r.count("moe_intermediate_size", width)
	c.Mixture.Shared = r.natural("n_shared_experts", shared)
	first := r.natural("first_k_dense_replace", dense)
	c.Mixture.Dense = c.denseLayers(func(i int) bool { return i < first })
}

// rank reads a size for which null means none.
func (r *reader) rank(key string, byDefault int) int {
	if v, ok := r.raw[key]; ok && string(v) == "null" {
		r.take(key)
		return 0
	}
	return r.count(key, byDefault)
}

// only refuses any other number.
func (r *reader) only(key string, want int) {
	if n := r.int(key, want); n != want {
		r.fail(key, "not supported: got %d, want %d", n, want)
	}
}

// oneOf refuses any other word; the first one is the default.
func (r *reader) oneOf(key string, words ...string) string {
	got := r.string(key, words[0])
	for _, w := range words {
		if got == w {
			return got
		}
	}
	r.fail(key, "not supported: got %q, want %s", got, listed(got, words))
	return words[0]
}

func readDeepseekV3(r *reader, f *family, c *Config) {
	r.deepseek(f, c, 256, 8, 2048, 1, 3)
	c.Rope.Interleaved = r.bool("rope_interleave", true)
	r.oneOf("scoring_func", "sigmoid")
	r.oneOf("topk_method", "noaux_tc")
	c.Mixture.Routing = nn.Routing{
		Sigmoid: true, Groups: r.count("n_group", 8), TopGroups: r.count("topk_group", 4), GroupBest: 2,
		RawWeights: !r.bool("norm_topk_prob", true), SumShift: 1e-20, Scale: r.float("routed_scaling_factor",
			2.5),
	}
}

func readDeepseekV2(r *reader, f *family, c *Config) {
	r.deepseek(f, c, 64, 0, 1407, 2, 0)
	c.MLPBias = r.bool("mlp_bias", false)
	c.Rope.Interleaved = true
	r.oneOf("scoring_func", "softmax")
	method := r.oneOf("topk_method", "greedy", "group_limited_greedy")
	c.Mixture.Routing = nn.Routing{RawWeights: true, Scale: r.float("routed_scaling_factor", 1)}
	groups, top := r.natural("n_group", 1), r.natural("topk_group", 1)
	if method != "greedy" {
		c.Mixture.Routing.Groups, c.Mixture.Routing.TopGroups, c.Mixture.Routing.GroupBest = groups, top, 1
	}
	r.bool("norm_topk_prob", false) // transformers ignores it
}

func fillDeepseek(_ *family, c *Config) {
	fill(&c.Mixture.Routing.Scale, 1)
	if c.Family == "deepseek_v3" {
		c.Mixture.Routing.Sigmoid, c.Mixture.Routing.GroupBest = true, 2
		fill(&c.Mixture.Routing.SumShift, 1e-20)
	} else {
		c.Rope.Interleaved, c.Mixture.Routing.RawWeights = true, true
	}
}

func checkDeepseek(c Config) error {
	l := c.Latent
	if c.KVHeads != c.Heads {
		return fmt.Errorf("num_key_value_heads %d: want num_attention_heads, %d", c.KVHeads, c.Heads)
	}
	if min(l.KVRank, l.Plain, l.Turned, l.Value) < 1 || l.QRank < 0 || c.HeadDim != l.Plain+l.Turned ||
		max(l.KVRank, l.Value, l.QRank) > maxSize {
		return fmt.Errorf("kv_lora_rank %d, qk_nope_head_dim %d, qk_rope_head_dim %d, v_head_dim %d, "+
			"q_lora_rank %d, head %d: want sizes of 1 or more", l.KVRank, l.Plain, l.Turned, l.Value, l.QRank,
			c.HeadDim)
	}
	return checkDenseFirst(c)
}

func checkDenseFirst(c Config) error {
	for i, dense := range c.Mixture.Dense {
		if dense && i > 0 && !c.Mixture.Dense[i-1] {
			return fmt.Errorf("%s: a plain layer %d after one with experts: want plain ones first",
				c.Family, i)
		}
	}
	return nil
}

func writeDeepseek(c Config, m map[string]any) {
	l := c.Latent
	m["num_key_value_heads"], m["attention_dropout"] = c.KVHeads, number(c.Dropout.Attention)
	m["attention_bias"], m["head_dim"] = c.AttentionBias, l.Turned
	m["q_lora_rank"], m["kv_lora_rank"], m["v_head_dim"] = orNull(l.QRank), l.KVRank, l.Value
	m["qk_nope_head_dim"], m["qk_rope_head_dim"] = l.Plain, l.Turned
	m["rope_parameters"] = c.Rope.written()
	writeExperts(c, m)
}

// writeExperts writes what expertsOf reads, and the routing.
func writeExperts(c Config, m map[string]any) {
	r := c.Mixture.Routing
	m["n_routed_experts"], m["num_experts_per_tok"] = c.Experts, c.ExpertsPerToken
	m["moe_intermediate_size"], m["n_shared_experts"] = c.expertWidth(), c.Mixture.Shared
	first := 0
	for first < c.Layers && c.denseAt(first) {
		first++
	}
	m["first_k_dense_replace"] = first
	m["n_group"], m["topk_group"] = max(1, r.Groups), max(1, r.TopGroups)
	m["norm_topk_prob"], m["routed_scaling_factor"] = !r.RawWeights, number(r.Scale)
}

func writeDeepseekV3(c Config, _ *family, m map[string]any) {
	writeDeepseek(c, m)
	m["qk_head_dim"], m["rope_interleave"] = c.HeadDim, c.Rope.Interleaved
	if c.Ahead > 0 {
		m["num_nextn_predict_layers"] = c.Ahead
	}
}

func writeDeepseekV2(c Config, _ *family, m map[string]any) {
	writeDeepseek(c, m)
	m["mlp_bias"], m["topk_method"] = c.MLPBias, "greedy"
	if c.Mixture.Routing.Groups > 1 {
		m["topk_method"] = "group_limited_greedy"
	}
}
