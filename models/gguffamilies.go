package models

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/gguf"
)

// ggufFamily is what llama.cpp's files of a family are like.
type ggufFamily struct {
	arch string
	// turned is that pairs of a head that turn together are side by side, and not half a head apart.
	turned bool
	// means is that norms subtract the mean and have biases; offset is what weights of norms are more there.
	means  bool
	offset float32
	// activation is that of MLPs; empty is silu.
	activation string
	// names is parts of a layer that are not called as llama's.
	names map[string]string
	// part is that a part of each head may turn, bias that there are biases of attention and MLPs.
	part, bias bool
	// head is that llama.cpp wants a head of its own, and does not take the table of tokens.
	head bool
	// experts is the word of config.json for how many there are; empty is none.
	experts string
	// fits, where not nil, says what else files cannot hold; meta what they have beside; words reads it.
	fits  func(c Config) error
	meta  func(c Config) map[string]any
	words func(m *metadata, config map[string]any)
}

// epsilon is the key of what norms add.
func (f ggufFamily) epsilon() string {
	if f.means {
		return ".attention.layer_norm_epsilon"
	}
	return ".attention.layer_norm_rms_epsilon"
}

// ggufFamilies returns the families whose files are read and written.
func ggufFamilies() map[string]ggufFamily {
	after := map[string]string{"post_attention_layernorm": "post_attention_norm",
		"post_feedforward_layernorm": "post_ffw_norm", "pre_feedforward_layernorm": "ffn_norm"}
	plain := map[string]string{"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
	fused := map[string]string{"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}
	const gelu = "gelu_pytorch_tanh"
	return map[string]ggufFamily{
		"llama":   {arch: "llama", turned: true, words: attentionBias},
		"mistral": {arch: "llama", turned: true},
		"mixtral": {arch: "llama", turned: true, experts: "num_local_experts"},
		"qwen2":   {arch: "qwen2"},
		"qwen3":   {arch: "qwen3", words: attentionBias},
		"qwen2_moe": {arch: "qwen2moe", head: true, experts: "num_experts", fits: rawWeights(true),
			meta: qwenExperts, words: readQwenExperts},
		"qwen3_moe": {arch: "qwen3moe", experts: "num_experts", fits: rawWeights(false), meta: qwenExperts,
			words: readQwenExperts},
		"olmo2": {arch: "olmo2", head: true, names: after, fits: noAttentionBias, words: attentionBias},
		"granite": {arch: "granite", turned: true, fits: noAttentionBias, meta: graniteMeta,
			words: readGraniteMeta},
		"gemma": {arch: "gemma", offset: 1, activation: gelu, fits: noAttentionBias},
		"gemma2": {arch: "gemma2", offset: 1, activation: gelu, names: after, fits: fitsGemma2, meta: gemma2Meta,
			words: readGemma2Meta},
		"phi3": {arch: "phi3", names: fused, words: readPhi3Meta},
		"starcoder2": {arch: "starcoder2", means: true, activation: gelu, bias: true, names: plain,
			words: useBias},
		"stablelm": {arch: "stablelm", head: true, means: true, part: true, fits: fitsStableLM, meta: stableLMMeta,
			words: readStableLMMeta},
	}
}

// ggufFamilyOf returns the family of a file: mixtral's architecture is llama, with experts.
func ggufFamilyOf(f *gguf.File) (name string, family ggufFamily, err error) {
	arch, _ := f.Meta["general.architecture"].(string)
	name = map[string]string{"qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe"}[arch]
	if name == "" {
		name = arch
	}
	if n, _ := f.Meta["llama.expert_count"].(uint64); arch == "llama" && n > 0 {
		name = "mixtral"
	}
	family, ok := ggufFamilies()[name]
	if !ok || family.arch != arch {
		var all []string
		for _, f := range ggufFamilies() {
			all = append(all, f.arch)
		}
		slices.Sort(all)
		return "", family, fmt.Errorf("general.architecture: got %q, want one of %s", arch,
			strings.Join(slices.Compact(all), ", "))
	}
	return name, family, nil
}

// ggufArch returns how a configuration is written; an error says what llama.cpp's files cannot hold.
func ggufArch(c Config) (ggufFamily, error) {
	f, ok := ggufFamilies()[c.Family]
	activation := f.activation
	if activation == "" {
		activation = "silu"
	}
	switch {
	case !ok:
		return f, fmt.Errorf("%s is not written for llama.cpp: want one of %s", c.Family,
			strings.Join(slices.Sorted(maps.Keys(ggufFamilies())), ", "))
	case c.Rope.Type != "default" || c.Rope.part() != 1 && !f.part || c.Rope.Interleaved:
		return f, fmt.Errorf("positions of type %q are not written for llama.cpp: want default", c.Rope.Type)
	case c.Window > 0 && c.Family != "gemma2":
		return f, fmt.Errorf("a window of %s is not written for llama.cpp", c.Family)
	case c.Tied && f.head:
		return f, fmt.Errorf("%s whose head is the table of tokens is not read by llama.cpp: "+
			"want a head of its own", c.Family)
	case c.MLPBias && !f.bias:
		return f, fmt.Errorf("biases of %s's MLPs are not written for llama.cpp", c.Family)
	case c.Activation != activation && (c.Activation != "gelu_new" || activation == "silu"):
		return f, fmt.Errorf("activation %q of %s is not written for llama.cpp: want %s", c.Activation, c.Family,
			activation)
	case len(c.Mixture.Dense) > 0 && slices.Contains(c.Mixture.Dense, true):
		return f, fmt.Errorf("%s with layers without experts is not written for llama.cpp", c.Family)
	case f.fits != nil:
		return f, f.fits(c)
	}
	return f, nil
}

func attentionBias(m *metadata, config map[string]any) {
	_, config["attention_bias"] = m.Tensor("blk.0.attn_output.bias")
}

func noAttentionBias(c Config) error {
	if c.AttentionBias {
		return fmt.Errorf("biases of %s's attention are not written for llama.cpp", c.Family)
	}
	return nil
}

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

// fitsGemma2: llama.cpp knows by the number of layers what queries are divided by, and that every other layer
// has a window.
func fitsGemma2(c Config) error {
	want := c.HeadDim
	if c.Layers == gemma27B {
		want = c.Hidden / c.Heads
	}
	if c.queryScalar() != float64(want) {
		return fmt.Errorf("query_pre_attn_scalar %v of gemma2 is not written for llama.cpp: want %d",
			c.queryScalar(), want)
	}
	for i, window := range c.WindowLayers {
		if window != (i%2 == 0) {
			return fmt.Errorf("layer_types of gemma2 are not written for llama.cpp: want a window in every other " +
				"layer, the first among them")
		}
	}
	if c.Window == 0 || c.ScoreCap == 0 || c.LogitCap == 0 {
		return fmt.Errorf("gemma2 without a window or caps is not written for llama.cpp")
	}
	return noAttentionBias(c)
}

// gemma27B is the layers of the largest gemma2.
const gemma27B = 46

func gemma2Meta(c Config) map[string]any {
	return map[string]any{"attention.sliding_window": uint32(c.Window),
		"attn_logit_softcapping": float32(c.ScoreCap), "final_logit_softcapping": float32(c.LogitCap)}
}

func readGemma2Meta(m *metadata, config map[string]any) {
	config["sliding_window"] = m.size("attention.sliding_window", 4096)
	config["attn_logit_softcapping"] = m.float("attn_logit_softcapping", 50)
	config["final_logit_softcapping"] = m.float("final_logit_softcapping", 30)
	config["query_pre_attn_scalar"] = config["head_dim"]
	if config["num_hidden_layers"] == gemma27B {
		config["query_pre_attn_scalar"] = config["hidden_size"].(int) / config["num_attention_heads"].(int)
	}
}

func readPhi3Meta(m *metadata, config map[string]any) {
	config["original_max_position_embeddings"] = config["max_position_embeddings"]
	config["pad_token_id"] = nil
	delete(config, "head_dim")
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
	turned, dim := m.size("rope.dimension_count", 0), config["head_dim"].(int)
	config["partial_rotary_factor"] = float64(turned) / float64(dim)
	m.take("use_parallel_residual")
	config["use_parallel_residual"] = false
	delete(config, "head_dim")
}
