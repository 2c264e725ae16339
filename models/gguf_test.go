package models_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/gguf"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// TestGGUF: a file is read back as the model that it was: floats as they were, integers as they were rounded,
// heads in our order.
func TestGGUF(t *testing.T) {
	for _, c := range []struct {
		family, weights string
		dtype           array.DType
	}{{"llama", "int8", array.F32}, {"llama", "bf16", array.BF16}, {"llama", "f32", array.BF16},
		{"qwen2", "int4", array.F32},
		{"qwen3", "f16", array.F16}, {"olmo2", "int8", array.F32}, {"granite", "f16", array.F16},
		{"gemma", "int8", array.F32}, {"gemma2", "f16", array.F16}, {"phi3", "int4", array.F32},
		{"starcoder2", "int8", array.F32}, {"stablelm", "bf16", array.BF16}, {"mixtral", "int4", array.F32},
		{"qwen2_moe", "int8", array.F32}, {"qwen3_moe", "f16", array.F16}, {"gpt2", "f16", array.F16},
		{"gpt_neox", "int8", array.F32}, {"falcon", "int4", array.F32}, {"phi", "f16", array.F16},
		{"olmo", "int8", array.F32}, {"olmo3", "f16", array.F16}, {"olmoe", "int4", array.F32},
		{"smollm3", "bf16", array.BF16}, {"gemma3_text", "int8", array.F32}, {"ernie4_5", "int8", array.F32},
		{"ernie4_5_moe", "f16", array.F16}, {"cohere", "int4", array.F32}, {"cohere2", "f32", array.F32},
		{"glm", "int8", array.F32}, {"glm4", "f16", array.F16}, {"glm4_moe", "int8", array.F32},
		{"deepseek_v2", "f16", array.F16}, {"deepseek_v3", "bf16", array.BF16}} {
		t.Run(c.family+c.weights, func(t *testing.T) {
			m := ggufModel(t, c.family, nn.Config{DType: c.dtype})
			path := filepath.Join(t.TempDir(), "m.gguf")
			tokenizer := []byte(`{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
				"added_tokens": [{"id": 3, "content": "<end>", "special": true}]}`)
			if err := models.SaveGGUF(path, m, models.GGUFConfig{Weights: c.weights,
				Tokenizer: tokenizer}); err != nil {
				t.Fatal(err)
			}
			w, err := models.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			linears, err := models.Linears(w.Model)
			if err != nil {
				t.Fatal(err)
			}
			bits := map[string]int{"int8": 8, "int4": 4}[c.weights]
			for i, p := range w.Model.Params() {
				was, err := cpu.Read(m.Params()[i].Value)
				if err != nil {
					t.Fatal(err)
				}
				same := quant.Config{Bits: bits, Group: 32, Signed: bits == 4}
				sameParam(t, w, p, was, bits > 0 && slices.Contains(linears, p), same)
			}
			kinds := map[string]gguf.Kind{"f32": gguf.F32, "f16": gguf.F16, "bf16": gguf.BF16}
			if want, ok := kinds[c.weights]; ok {
				sameKind(t, path, want)
			}
			if text, err := models.GGUFTokenizer(path); err != nil || string(text) != string(tokenizer) {
				t.Errorf("tokenizer: got %q, %v", text, err)
			}
			got := w.Model.Config()
			if want := m.Config(); got.Family != want.Family || got.Rope.Theta != want.Rope.Theta ||
				got.Tied != want.Tied ||
				got.Positions != want.Positions ||
				got.Multipliers != want.Multipliers || got.Activation != want.Activation ||
				got.Rope.Part != want.Rope.Part || got.RopeLocal.Theta != want.RopeLocal.Theta ||
				!slices.Equal(got.WindowLayers, want.WindowLayers) || !slices.Equal(got.Unturned, want.Unturned) ||
				got.QKV != want.QKV || got.OneNorm != want.OneNorm || got.SequentialBlocks != want.SequentialBlocks ||
				got.QKVBound != want.QKVBound || got.Latent != want.Latent || got.AttentionBias != want.AttentionBias ||
				got.QKRMSNorm != want.QKRMSNorm || got.KVHeads != want.KVHeads || got.HeadDim != want.HeadDim ||
				got.Window != want.Window || got.Experts != want.Experts ||
				!reflect.DeepEqual(got.Mixture, want.Mixture) || got.QueryScalar != want.QueryScalar ||
				math.Abs(got.NormEps-want.NormEps) > 1e-12 {
				t.Errorf("config: got %+v, want %+v", got, want)
			}
		})
	}
}

// sameKind: the table of tokens, a matrix like others, is of a kind.
func sameKind(t *testing.T, path string, want gguf.Kind) {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, ok := f.Tensor("token_embd.weight"); !ok || got.Kind != want {
		t.Errorf("table of tokens: got %v, want %v", got.Kind, want)
	}
}

// ggufModel returns a small model that llama.cpp could have.
func ggufModel(t *testing.T, family string, c nn.Config) models.Model {
	t.Helper()
	d := cpu.NewDevice(cpu.Config{})
	t.Cleanup(d.Close)
	c.Scope, c.Seed = d.NewSession(), 5
	const latent = `, "kv_lora_rank": 32, "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "v_head_dim": 20,
		"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 2`
	more := map[string]string{
		"gemma2":  `, "query_pre_attn_scalar": 16, "sliding_window": 8`,
		"phi3":    `, "pad_token_id": 0`,
		"mixtral": `, "num_local_experts": 4`,
		"qwen2_moe": `, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
			"shared_expert_intermediate_size": 64`,
		"qwen3_moe": `, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
			"norm_topk_prob": true`,
		"olmo":        `, "clip_qkv": 8.0`,
		"olmo3":       `, "sliding_window": 8, "layer_types": ["full_attention", "sliding_attention"]`,
		"olmoe":       `, "num_experts": 4, "num_experts_per_tok": 2`,
		"gemma3_text": `, "query_pre_attn_scalar": 16, "sliding_window": 8, "sliding_window_pattern": 2`,
		"cohere":      `, "logit_scale": 0.5`,
		"cohere2":     `, "logit_scale": 0.25, "sliding_window": 8, "sliding_window_pattern": 2`,
		"ernie4_5_moe": `, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 32,
			"moe_num_shared_experts": 2, "moe_layer_start_index": 1`,
		"deepseek_v2": `, "q_lora_rank": null` + latent,
		"deepseek_v3": `, "q_lora_rank": 48, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1` + latent,
		"glm4":        `, "attention_bias": true`,
		"glm4_moe": `, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_group": 2,
			"topk_group": 1, "use_qk_norm": true, "attention_bias": true, "routed_scaling_factor": 1.5`,
	}[family]
	keys := `"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4`
	switch family {
	case "gpt2":
		keys = `"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32`
	case "falcon":
		keys = `"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_kv_heads": 2,
			"new_decoder_architecture": true`
	case "gpt_neox", "olmoe", "deepseek_v2", "deepseek_v3": // as many heads of keys as of queries
	default:
		keys += `, "num_key_value_heads": 2`
	}
	text := fmt.Sprintf(`{"model_type": %q, "vocab_size": 37, %s%s}`, family, keys, more)
	config, err := models.ParseConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if config.Latent.KVRank == 0 {
		config.HeadDim = 16 // some families have another by default
	}
	m, err := models.New(config, c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestGGUFQ4K: matrices of whole blocks are Q4_K and come back near what they were, others are Q8_0.
func TestGGUFQ4K(t *testing.T) {
	c := models.Config{Family: "llama", Vocab: 40, Hidden: 256, Intermediate: 96, Layers: 1, Heads: 4}
	d := cpu.NewDevice(cpu.Config{})
	t.Cleanup(d.Close)
	m, err := models.New(c, nn.Config{Scope: d.NewSession(), Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := models.SaveGGUF(path, m, models.GGUFConfig{Weights: "q4_k"}); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, want := range map[string]gguf.Kind{"blk.0.attn_v.weight": gguf.Q4_K,
		"blk.0.ffn_up.weight":   gguf.Q4_K,
		"blk.0.ffn_down.weight": gguf.Q8_0, "token_embd.weight": gguf.F32, "output_norm.weight": gguf.F32} {
		if got, ok := f.Tensor(name); !ok || got.Kind != want {
			t.Errorf("%s: got %v, want %v", name, got.Kind, want)
		}
	}
	w, err := models.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i, p := range w.Model.Params() {
		was, err := cpu.Read(m.Params()[i].Value)
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		loss, size := 0.0, 0.0
		for j, v := range array.Data[float32](was) {
			e := float64(array.Data[float32](got)[j] - v)
			loss, size = loss+e*e, size+float64(v)*float64(v)
		}
		if loss > 0.01*size {
			t.Errorf("%s: squared error %v of %v", p.Name, loss, size)
		}
	}
}

// TestGGUFOrder: rows of queries are as llama.cpp turns them, the two halves of a head side by side.
func TestGGUFOrder(t *testing.T) {
	m := tinyModel(t, "llama", nn.Config{})
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := models.SaveGGUF(path, m, models.GGUFConfig{Weights: "f16"}); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stored, err := f.Read("blk.1.attn_q.weight")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(
		m.Params(),
		func(p *nn.Param) bool { return p.Name == "model.layers.1.self_attn.q_proj.weight" },
	)
	own, err := cpu.Read(m.Params()[i].Value)
	if err != nil {
		t.Fatal(err)
	}
	got, want := make([]float32, 64*64), array.Data[float32](own)
	packed.Floats(got, stored, 0)
	for head := range 4 {
		for pair := range 8 {
			for half := range 2 {
				a, b := got[(head*16+2*pair+half)*64], want[(head*16+half*8+pair)*64]
				if math.Abs(float64(a-b)) > 1e-3*math.Abs(float64(b)) {
					t.Fatalf("head %d, pair %d, half %d: got %v, want %v", head, pair, half, a, b)
				}
			}
		}
	}
}

// TestGGUFColumns: matrices of GPT-2 are stored by rows, as integers too, and are read as the floats that
// they mean.
func TestGGUFColumns(t *testing.T) {
	m := ggufModel(t, "gpt2", nn.Config{DType: array.F32})
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := models.SaveGGUF(path, m, models.GGUFConfig{Weights: "int8"}); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stored, ok := f.Tensor("blk.1.ffn_up.weight")
	if !ok || stored.Kind != gguf.Q8_0 || !stored.Shape.Equal(array.Shape{256, 64}) {
		t.Errorf("got %v, want 256 rows of 64 integers", stored)
	}
	w, err := models.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i, p := range w.Model.Params() {
		was, err := cpu.Read(m.Params()[i].Value)
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		for j, v := range array.Data[float32](was) {
			if math.Abs(float64(array.Data[float32](got)[j]-v)) > 1e-3 {
				t.Fatalf("%s: element %d: got %v, want %v", p.Name, j, array.Data[float32](got)[j], v)
			}
		}
	}
}

// TestGGUFFused: queries, keys and values are in the order of llama.cpp, whatever ours is.
func TestGGUFFused(t *testing.T) {
	m := ggufModel(t, "falcon", nn.Config{DType: array.F32})
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := models.SaveGGUF(path, m, models.GGUFConfig{Weights: "f32"}); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stored, err := f.Read("blk.0.attn_qkv.weight")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(m.Params(), func(p *nn.Param) bool {
		return p.Name == "transformer.h.0.self_attention.query_key_value.weight"
	})
	own, err := cpu.Read(m.Params()[i].Value)
	if err != nil {
		t.Fatal(err)
	}
	got, want := array.Data[float32](stored), array.Data[float32](own)
	// Two heads of keys with two of queries each: q0 q1 k0 v0 q2 q3 k1 v1.
	for at, head := range []int{0, 1, 4, 5, 2, 6, 3, 7} {
		if !slices.Equal(got[at*16*64:(at+1)*16*64], want[head*16*64:(head+1)*16*64]) {
			t.Errorf("head %d of the file is not our head %d", at, head)
		}
	}
}

// TestGGUFRope: stretched positions are read as they were, llama3's as a factor for each pair.
func TestGGUFRope(t *testing.T) {
	for _, c := range []struct {
		family string
		rope   models.Rope
	}{
		{"llama", models.Rope{Type: "llama3", Theta: 5e5, Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4,
			OriginalPositions: 64}},
		{"gemma3_text", models.Rope{Type: "linear", Theta: 1e6, Factor: 8}},
		{"qwen3", models.Rope{Type: "yarn", Theta: 1e4, Factor: 4, OriginalPositions: 256, BetaFast: 16}},
		{"deepseek_v2", models.Rope{Type: "yarn", Theta: 1e4, Factor: 40, OriginalPositions: 128, MScale: 0.5,
			MScaleAll: 0.5, Interleaved: true}},
	} {
		config := ggufModel(t, c.family, nn.Config{}).Config()
		config.Rope = c.rope
		m, err := models.New(config, nn.Config{})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "m.gguf")
		zeros := func(p *nn.Param) (array.Array, error) { return array.New(array.F32, p.Type.Shape...), nil }
		if err := models.SaveGGUF(path, m, models.GGUFConfig{Weights: "f16", Read: zeros}); err != nil {
			t.Fatal(err)
		}
		w, err := models.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		got := w.Model.Config().Rope
		if got.MScaleAll != c.rope.MScaleAll || got.MScale != c.rope.MScale ||
			got.Interleaved != c.rope.Interleaved {
			t.Errorf("%s: got %+v, want %+v", c.family, got, c.rope)
		}
		want := c.rope.Frequencies(16, 100)
		for i, f := range got.Frequencies(16, 100) {
			if math.Abs(f-want[i]) > 1e-6*want[i] {
				t.Errorf("%s: pair %d turns by %v, want %v", c.family, i, f, want[i])
			}
		}
	}
}

// TestGGUFConverted: keys as llama.cpp's converter writes them, which leaves out some and has others beside.
func TestGGUFConverted(t *testing.T) {
	table := gguf.Stored{Name: "token_embd.weight", Shape: array.Shape{10, 64}, Kind: gguf.F32,
		Data: make([]byte, 4*640)}
	for arch, c := range map[string]struct {
		family string
		more   map[string]any
	}{
		"gpt2": {"gpt2", map[string]any{"attention.layer_norm_epsilon": float32(1e-5)}},
		"gptneox": {"gpt_neox", map[string]any{"attention.layer_norm_epsilon": float32(1e-5),
			"use_parallel_residual": true, "rope.dimension_count": uint32(4)}},
		"falcon": {"falcon", map[string]any{"attention.layer_norm_epsilon": float32(1e-5),
			"attention.head_count_kv": uint32(1), "tensor_data_layout": "jploski"}},
		"phi3": {"phi3", map[string]any{"attention.layer_norm_rms_epsilon": float32(1e-5),
			"rope.scaling.original_context_length": uint32(128), "rope.dimension_count": uint32(16)}},
		"command-r": {"cohere", map[string]any{"attention.layer_norm_epsilon": float32(1e-5),
			"logit_scale": float32(0.5), "rope.scaling.type": "none", "rope.dimension_count": uint32(16)}},
		"ernie4_5-moe": {"ernie4_5_moe", map[string]any{"attention.layer_norm_rms_epsilon": float32(1e-5),
			"expert_count": uint32(4), "expert_used_count": uint32(2), "expert_feed_forward_length": uint32(32),
			"expert_shared_count": uint32(2), "expert_shared_feed_forward_length": uint32(64),
			"interleave_moe_layer_step": uint32(1), "leading_dense_block_count": uint32(1)}},
	} {
		meta := []gguf.Pair{{Key: "general.architecture", Value: arch}}
		for key, n := range map[string]uint32{"context_length": 128, "embedding_length": 64, "block_count": 2,
			"feed_forward_length": 128, "attention.head_count": 4} {
			meta = append(meta, gguf.Pair{Key: arch + "." + key, Value: n})
		}
		for key, v := range c.more {
			meta = append(meta, gguf.Pair{Key: arch + "." + key, Value: v})
		}
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := gguf.Write(path, meta, []gguf.Stored{table}); err != nil {
			t.Fatal(err)
		}
		got, err := models.ReadConfig(path)
		if err != nil || got.Family != c.family || got.HeadDim != 16 || !got.Tied {
			t.Errorf("%s: got %+v, %v", arch, got, err)
		}
	}
}

// TestGGUFMistakes: what llama.cpp's files cannot hold, and what is no such file, is said.
func TestGGUFMistakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	tiny := func(family string) models.Config {
		return models.Config{Family: family, Vocab: 40, Hidden: 64, Intermediate: 96, Layers: 1, Heads: 4}
	}
	tied, unscaled, neox, bound := tiny("olmo2"), tiny("gpt2"), tiny("gpt_neox"), tiny("olmoe")
	tied.Tied, unscaled.UnscaledAttention, neox.Activation = true, true, "gelu_new"
	bound.Experts, bound.ExpertsPerToken, bound.QKVBound = 4, 2, 8
	windowed := tiny("ministral")
	windowed.Window, windowed.WindowLayers = 8, []bool{true}
	wide, after, every := tiny("glm"), tiny("falcon"), tiny("smollm3")
	wide.HeadDim, after.SequentialBlocks, every.Unturned = 32, true, []bool{true}
	after.QKV = models.QKVHeads
	gemma := tiny("gemma2")
	gemma.QueryScalar, gemma.Window, gemma.WindowLayers = 256, 8, []bool{true}
	gemma.ScoreCap, gemma.LogitCap = 5, 5
	for _, c := range []struct {
		config models.Config
		want   string
	}{
		{tiny("gptj"), "gptj is not written for llama.cpp"}, {gemma, "query_pre_attn_scalar 256"},
		{tied, "want a head of its own"}, {unscaled, "scale_attn_weights"}, {neox, `activation "gelu_new"`},
		{bound, "clip_qkv 8"}, {wide, "head_dim 32"}, {after, "MLP follows attention"}, {every, "no_rope_layers"},
		{windowed, "a window of ministral"},
	} {
		m, err := models.New(c.config, nn.Config{})
		if err != nil {
			t.Fatal(err)
		}
		err = models.SaveGGUF(path, m, models.GGUFConfig{Weights: "int8"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.config.Family, err, c.want)
		}
	}
	if err := models.SaveGGUF(path, tinyModel(t, "llama", nn.Config{}),
		models.GGUFConfig{Weights: "int8"}); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text []byte
		want string
	}{
		{whole[:len(whole)-100], "ends too early"}, {whole[:50], "ends too early"},
		{[]byte(strings.Replace(string(whole), "blk.1.attn_q.weight", "blk.1.attn_x.weight", 1)), "missing"},
		{[]byte(strings.Replace(string(whole), "llama.rope.freq_base", "llama.expert_countXX", 1)),
			"expert_countXX"},
		{[]byte(strings.Replace(string(whole), "llama.block_count", "llama.block_cownt", 1)), "block_count"},
	} {
		if err := os.WriteFile(path, c.text, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := models.Open(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
}

// FuzzGGUFConfig: any metadata is a configuration, or an error.
func FuzzGGUFConfig(f *testing.F) {
	path := filepath.Join(f.TempDir(), "m.gguf")
	for _, more := range []string{`"llama"`, `"gpt_neox", "rotary_pct": 0.5`, `"phi3", "pad_token_id": null`,
		`"gemma3_text", "query_pre_attn_scalar": 4, "head_dim": 4, "num_key_value_heads": 1`,
		`"ernie4_5_moe", "num_key_value_heads": 1, "moe_num_experts": 2, "moe_k": 1, "moe_intermediate_size": 8,
			"moe_layer_start_index": 0`,
		`"deepseek_v3", "num_key_value_heads": 2, "q_lora_rank": 4, "kv_lora_rank": 4, "qk_nope_head_dim": 2,
			"qk_rope_head_dim": 2, "v_head_dim": 4,
			"n_routed_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8, "n_group": 1,
			"topk_group": 1, "first_k_dense_replace": 0`} {
		config, err := models.ParseConfig([]byte(`{"vocab_size": 3, "hidden_size": 8, "intermediate_size": 8,
			"num_hidden_layers": 1, "num_attention_heads": 2, "model_type": ` + more + `}`))
		if err != nil {
			f.Fatal(err)
		}
		m, err := models.New(config, nn.Config{})
		if err != nil {
			f.Fatal(err)
		}
		zeros := func(p *nn.Param) (array.Array, error) { return array.New(array.F32, p.Type.Shape...), nil }
		if err := models.SaveGGUF(path, m, models.GGUFConfig{Weights: "f16", Read: zeros}); err != nil {
			f.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		models.ReadConfig(path)
	})
}
