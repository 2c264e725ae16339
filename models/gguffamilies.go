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
	// file, where several families have an architecture, reports whether a file is of this one.
	file func(f *gguf.File) bool
	// turned is that pairs of a head that turn together are side by side, and not half a head apart.
	turned bool
	// means is that norms subtract the mean; offset is what weights of norms are more there.
	means  bool
	offset float32
	// activation is that of MLPs; empty is silu.
	activation string
	// names is what is not called as in llama: parts of a layer, and whole names of what is outside of them.
	names map[string]string
	// columns is that our matrices are [in, out], as GPT-2's are.
	columns bool
	// part is that a part of each head may turn, bias that there are biases of attention and MLPs.
	part, bias bool
	// head is that llama.cpp wants a head of its own, and does not take the table of tokens; tied is that it
	// takes nothing else.
	head, tied bool
	// latent is that keys and values are of latent vectors, as DeepSeek's are.
	latent bool
	// windows is that layers may have a sliding window; dense, that the first layers may have no experts.
	windows, dense bool
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
	all := ggufLlamas()
	maps.Copy(all, ggufOlder())
	maps.Copy(all, ggufMixtures())
	return all
}

// ggufGELU is the activation that llama.cpp calls gelu.
const ggufGELU = "gelu_pytorch_tanh"

// ggufLlamas returns families whose layers are mostly llama's.
func ggufLlamas() map[string]ggufFamily {
	after := map[string]string{"post_attention_layernorm": "post_attention_norm",
		"post_feedforward_layernorm": "post_ffw_norm", "pre_feedforward_layernorm": "ffn_norm"}
	fused := map[string]string{"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up",
		"post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm"}
	return map[string]ggufFamily{
		"llama":     {arch: "llama", file: hasExperts(false), turned: true, words: attentionBias},
		"mistral":   {arch: "llama", file: never, turned: true},
		"ministral": {arch: "llama", file: never, turned: true},
		"qwen2":     {arch: "qwen2"},
		"qwen3":     {arch: "qwen3", words: attentionBias},
		"olmo": {arch: "olmo", turned: true, means: true, fits: noAttentionBias, meta: olmoMeta,
			words: readOLMoMeta},
		"olmo2": {arch: "olmo2", file: hasWindow(false), head: true, names: after, fits: noAttentionBias,
			words: attentionBias},
		"olmo3": {arch: "olmo2", file: hasWindow(true), head: true, windows: true, names: after, fits: fitsOLMo3,
			meta: windowMeta, words: readWindows(4)},
		"granite": {arch: "granite", turned: true, fits: noAttentionBias, meta: graniteMeta,
			words: readGraniteMeta},
		"gemma": {arch: "gemma", offset: 1, activation: ggufGELU, fits: noAttentionBias},
		"gemma2": {arch: "gemma2", offset: 1, activation: ggufGELU, windows: true, names: after, fits: fitsGemma2,
			meta: gemma2Meta, words: readGemma2Meta},
		"gemma3_text": {arch: "gemma3", offset: 1, activation: ggufGELU, windows: true, names: after,
			fits: fitsGemma3, meta: gemma3Meta, words: readGemma3Meta},
		"phi3":     {arch: "phi3", names: fused, words: readPhi3Meta},
		"smollm3":  {arch: "smollm3", turned: true, fits: fitsSmolLM3},
		"ernie4_5": {arch: "ernie4_5", turned: true, fits: noAttentionBias},
		"cohere": {arch: "command-r", turned: true, means: true, tied: true, fits: fitsCohere, meta: cohereMeta,
			words: readCohereMeta},
		"cohere2": {arch: "cohere2", turned: true, means: true, tied: true, windows: true, fits: fitsCohere,
			meta: cohereMeta, words: readCohereMeta},
		"glm":  {arch: "chatglm", turned: true, part: true, names: fused, fits: fitsGLM, words: queryBias},
		"glm4": {arch: "glm4", turned: true, part: true, names: fused, words: queryBias},
	}
}

// ggufOlder returns families of LayerNorm, most with a plain MLP.
func ggufOlder() map[string]ggufFamily {
	plain := map[string]string{"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
	gpt2 := map[string]string{"transformer.wte": "token_embd", "transformer.wpe": "position_embd",
		"transformer.ln_f": "output_norm", "ln_1": "attn_norm", "attn.c_attn": "attn_qkv",
		"attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
	neox := map[string]string{"gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm",
		"attention.query_key_value": "attn_qkv", "attention.dense": "attn_output",
		"mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"}
	falcon := map[string]string{"transformer.word_embeddings": "token_embd", "transformer.ln_f": "output_norm",
		"self_attention.query_key_value": "attn_qkv", "self_attention.dense": "attn_output",
		"mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down", "ln_mlp": "attn_norm",
		"ln_attn": "attn_norm_2"}
	phi := map[string]string{"model.final_layernorm": "output_norm", "self_attn.dense": "attn_output",
		"mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down"}
	return map[string]ggufFamily{
		"gpt2": {arch: "gpt2", means: true, activation: ggufGELU, columns: true, names: gpt2, fits: fitsGPT2,
			words: equalHeads},
		"gpt_neox": {arch: "gptneox", means: true, activation: "gelu", part: true, head: true, names: neox,
			fits: fitsGPTNeoX, meta: gptNeoXMeta, words: readGPTNeoXMeta},
		"falcon": {arch: "falcon", means: true, activation: "gelu", names: falcon, fits: fitsFalcon,
			words: readFalconMeta},
		"phi": {arch: "phi2", means: true, activation: ggufGELU, part: true, head: true, names: phi,
			fits: noHeadNorms},
		"starcoder2": {arch: "starcoder2", means: true, activation: ggufGELU, bias: true, names: plain,
			words: useBias},
		"stablelm": {arch: "stablelm", head: true, means: true, part: true, fits: fitsStableLM, meta: stableLMMeta,
			words: readStableLMMeta},
	}
}

// ggufMixtures returns families with experts.
func ggufMixtures() map[string]ggufFamily {
	shared := map[string]string{"mlp.shared_experts.gate_proj": "ffn_gate_shexp",
		"mlp.shared_experts.up_proj": "ffn_up_shexp", "mlp.shared_experts.down_proj": "ffn_down_shexp",
		"mlp.gate.e_score_correction_bias": "exp_probs_b", "mlp.moe_statics.e_score_correction_bias": "exp_probs_b",
		"self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm",
		"self_attn.q_b_proj": "attn_q_b", "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
		"self_attn.kv_a_layernorm": "attn_kv_a_norm"}
	glm := maps.Clone(shared)
	glm["post_attention_layernorm"] = "post_attention_norm"
	return map[string]ggufFamily{
		"mixtral": {arch: "llama", file: hasExperts(true), turned: true, experts: "num_local_experts"},
		"qwen2_moe": {arch: "qwen2moe", head: true, experts: "num_experts", fits: rawWeights(true),
			meta: qwenExperts, words: readQwenExperts},
		"qwen3_moe": {arch: "qwen3moe", experts: "num_experts", fits: rawWeights(false), meta: qwenExperts,
			words: readQwenExperts},
		"olmoe": {arch: "olmoe", head: true, experts: "num_experts", fits: fitsOLMoE, words: readOLMoEMeta},
		"ernie4_5_moe": {arch: "ernie4_5-moe", turned: true, dense: true, experts: "moe_num_experts",
			names: shared, fits: fitsErnieMoE, meta: ernieMoEMeta, words: readErnieMoEMeta},
		"deepseek_v2": {arch: "deepseek2", file: hasSigmoids(false), turned: true, dense: true, latent: true,
			experts: "n_routed_experts", names: shared, fits: fitsDeepseek, meta: sharedExpertsMeta,
			words: readDeepseekMeta},
		"deepseek_v3": {arch: "deepseek2", file: hasSigmoids(true), turned: true, dense: true, latent: true,
			experts: "n_routed_experts", names: shared, fits: fitsDeepseek, meta: sharedExpertsMeta,
			words: readDeepseekMeta},
		"glm4_moe": {arch: "glm4moe", part: true, dense: true, experts: "n_routed_experts", names: glm,
			fits: fitsGLMMoE, meta: sharedExpertsMeta, words: readGLMMoEMeta},
	}
}

func never(*gguf.File) bool { return false }

// hasExperts returns whether a file of llama's architecture is one with experts, as mixtral is.
func hasExperts(want bool) func(f *gguf.File) bool {
	return func(f *gguf.File) bool {
		n, _ := f.Meta["llama.expert_count"].(uint64)
		return n > 0 == want
	}
}

// hasWindow returns whether a file of olmo2's architecture is one with windows, as olmo3 is.
func hasWindow(want bool) func(f *gguf.File) bool {
	return func(f *gguf.File) bool {
		n, _ := f.Meta["olmo2.attention.sliding_window"].(uint64)
		return n > 0 == want
	}
}

// hasSigmoids returns whether a file of deepseek2's architecture has routers as in DeepSeek-V3.
func hasSigmoids(want bool) func(f *gguf.File) bool {
	return func(f *gguf.File) bool {
		n, _ := f.Meta["deepseek2.expert_gating_func"].(uint64)
		return n == sigmoidGating == want
	}
}

// ggufFamilyOf returns the family of a file.
func ggufFamilyOf(f *gguf.File) (name string, family ggufFamily, err error) {
	arch, _ := f.Meta["general.architecture"].(string)
	all := ggufFamilies()
	var known []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		family := all[name]
		if family.arch == arch && (family.file == nil || family.file(f)) {
			return name, family, nil
		}
		known = append(known, family.arch)
	}
	slices.Sort(known)
	return "", family, fmt.Errorf("general.architecture: got %q, want one of %s", arch,
		strings.Join(slices.Compact(known), ", "))
}

// ggufArch returns how a configuration is written; an error says what llama.cpp's files cannot hold.
func ggufArch(c Config) (ggufFamily, error) {
	f, ok := ggufFamilies()[c.Family]
	if !ok {
		return f, fmt.Errorf("%s is not written for llama.cpp: want one of %s", c.Family,
			strings.Join(slices.Sorted(maps.Keys(ggufFamilies())), ", "))
	}
	if err := f.fitsRope(c); err != nil {
		return f, err
	}
	activation := f.activation
	if activation == "" {
		activation = "silu"
	}
	switch {
	case c.Window > 0 && !f.windows:
		return f, fmt.Errorf("a window of %s is not written for llama.cpp", c.Family)
	case c.Tied && f.head:
		return f, fmt.Errorf("%s whose head is the table of tokens is not read by llama.cpp: "+
			"want a head of its own", c.Family)
	case !c.Tied && f.tied:
		return f, fmt.Errorf("%s with a head of its own is not read by llama.cpp: want the table of tokens",
			c.Family)
	case c.MLPBias && !f.bias:
		return f, fmt.Errorf("biases of %s's MLPs are not written for llama.cpp", c.Family)
	case c.Activation != activation && (c.Activation != "gelu_new" || activation != ggufGELU):
		return f, fmt.Errorf("activation %q of %s is not written for llama.cpp: want %s", c.Activation, c.Family,
			activation)
	case slices.Contains(c.Mixture.Dense, true) && !f.dense:
		return f, fmt.Errorf("%s with layers without experts is not written for llama.cpp", c.Family)
	case f.fits != nil:
		return f, f.fits(c)
	}
	return f, nil
}
