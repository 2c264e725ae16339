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
	}{{"llama", "int8", array.F32}, {"llama", "bf16", array.BF16}, {"qwen2", "int4", array.F32},
		{"qwen3", "f16", array.F16}, {"olmo2", "int8", array.F32}, {"granite", "f16", array.F16},
		{"gemma", "int8", array.F32}, {"gemma2", "f16", array.F16}, {"phi3", "int4", array.F32},
		{"starcoder2", "int8", array.F32}, {"stablelm", "bf16", array.BF16}, {"mixtral", "int4", array.F32},
		{"qwen2_moe", "int8", array.F32}, {"qwen3_moe", "f16", array.F16}} {
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
			if text, err := models.GGUFTokenizer(path); err != nil || string(text) != string(tokenizer) {
				t.Errorf("tokenizer: got %q, %v", text, err)
			}
			got := w.Model.Config()
			if want := m.Config(); got.Family != want.Family || got.Rope.Theta != want.Rope.Theta ||
				got.Tied != want.Tied ||
				got.Positions != want.Positions ||
				got.Multipliers != want.Multipliers || got.Activation != want.Activation ||
				got.Rope.Part != want.Rope.Part || got.Window != want.Window || got.Experts != want.Experts ||
				!reflect.DeepEqual(got.Mixture, want.Mixture) || got.QueryScalar != want.QueryScalar ||
				math.Abs(got.NormEps-want.NormEps) > 1e-12 {
				t.Errorf("config: got %+v, want %+v", got, want)
			}
		})
	}
}

// ggufModel returns a small model that llama.cpp could have.
func ggufModel(t *testing.T, family string, c nn.Config) models.Model {
	t.Helper()
	d := cpu.NewDevice(cpu.Config{})
	t.Cleanup(d.Close)
	c.Scope, c.Seed = d.NewSession(), 5
	more := map[string]string{
		"gemma2":  `, "query_pre_attn_scalar": 16, "sliding_window": 8`,
		"phi3":    `, "pad_token_id": 0`,
		"mixtral": `, "num_local_experts": 4`,
		"qwen2_moe": `, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
			"shared_expert_intermediate_size": 64`,
		"qwen3_moe": `, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
			"norm_topk_prob": true`,
	}[family]
	config, err := models.ParseConfig([]byte(fmt.Sprintf(`{"model_type": %q, "vocab_size": 37, "hidden_size": 64,
		"intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2%s}`,
		family, more)))
	if err != nil {
		t.Fatal(err)
	}
	if config.HeadDim != 16 { // gemma's own
		config.HeadDim = 16
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

// TestGGUFMistakes: what llama.cpp's files cannot hold, and what is no such file, is said.
func TestGGUFMistakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	err := models.SaveGGUF(path, tinyModel(t, "smollm3", nn.Config{}), models.GGUFConfig{Weights: "int8"})
	if err == nil || !strings.Contains(err.Error(), "smollm3 is not written for llama.cpp") {
		t.Errorf("smollm3: got %v", err)
	}
	err = models.SaveGGUF(path, tinyModel(t, "gemma2", nn.Config{}), models.GGUFConfig{Weights: "int8"})
	if err == nil || !strings.Contains(err.Error(), "query_pre_attn_scalar 256") {
		t.Errorf("gemma2 whose queries are divided by something else: got %v", err)
	}
	tied, err := models.New(models.Config{Family: "olmo2", Vocab: 40, Hidden: 64, Intermediate: 96, Layers: 1,
		Heads: 4, Tied: true}, nn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	err = models.SaveGGUF(path, tied, models.GGUFConfig{Weights: "int8"})
	if err == nil || !strings.Contains(err.Error(), "want a head of its own") {
		t.Errorf("tied olmo2: got %v", err)
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
