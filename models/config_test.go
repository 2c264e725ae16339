package models

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, text string) Config {
	t.Helper()
	c, err := ParseConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The forms that transformers 4 and 5 write of the same model.
const (
	olderLlama = `{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 2048,
		"intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
		"head_dim": 64, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "rope_scaling": {"factor": 32.0,
		"high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
		"max_position_embeddings": 131072, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true,
		"attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": [128001, 128008],
		"hidden_act": "silu", "initializer_range": 0.02, "mlp_bias": false, "pretraining_tp": 1,
		"transformers_version": "4.45.0.dev0"}`
	newerLlama = `{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 2048,
		"intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
		"head_dim": 64, "rms_norm_eps": 1e-05, "rope_parameters": {"rope_theta": 500000.0, "factor": 32.0,
		"high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
		"max_position_embeddings": 131072, "tie_word_embeddings": true, "dtype": "bfloat16", "use_cache": true,
		"attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": [128001, 128008],
		"hidden_act": "silu", "initializer_range": 0.02, "mlp_bias": false, "pretraining_tp": 1,
		"transformers_version": "5.17.0"}`
)

func TestConfigForms(t *testing.T) {
	older, newer := parse(t, olderLlama), parse(t, newerLlama)
	if diff := cmp.Diff(older, newer); diff != "" {
		t.Errorf("older and newer form (-older +newer):\n%s", diff)
	}
	if older.DType != array.BF16 || older.Rope.Type != "llama3" || older.Rope.Theta != 500000 || !older.Tied {
		t.Errorf("got %+v", older)
	}
	if got := older.StopTokens(); !cmp.Equal(got, []int32{128001, 128008}) {
		t.Errorf("stop tokens: got %v", got)
	}
}

// small returns the least that a config.json of each kind says.
func small(family, more string) string {
	if family == "gpt2" || family == "gptj" {
		return `{"model_type": "` + family + `", "vocab_size": 40, "n_embd": 16, "n_layer": 3, "n_head": 4` + more +
			`}`
	}
	if family == "distilbert" {
		return `{"model_type": "distilbert", "vocab_size": 40, "dim": 16, "hidden_dim": 24, "n_layers": 3, "n_heads": 4` +
			more + `}`
	}
	if family == "falcon" {
		return `{"model_type": "falcon", "vocab_size": 40, "hidden_size": 16, "ffn_hidden_size": 24,
			"num_hidden_layers": 3, "num_attention_heads": 4` + more + `}`
	}
	if family == "mamba2" || family == "mamba" {
		return `{"model_type": "` + family + `", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 3` + more + `}`
	}
	if kv, _ := headsLeftOut(family); kv != 0 && !strings.Contains(more, "num_key_value_heads") {
		more += `, "num_key_value_heads": 4`
	}
	if family == "qwen3" && !strings.Contains(more, "head_dim") {
		more += `, "head_dim": 4`
	}
	if family == "rwkv7" {
		return `{"model_type": "rwkv7", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 3, "head_dim": 4` + more + `}`
	}
	if family == "rwkv" {
		return `{"model_type": "rwkv", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 3` + more + `}`
	}
	if family == "vit" {
		return `{"model_type": "vit", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4` + more + `}`
	}
	return `{"model_type": "` + family + `", "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24,
		"num_hidden_layers": 3, "num_attention_heads": 4` + more + `}`
}

func TestConfigDefaults(t *testing.T) {
	for _, test := range []struct {
		family string
		want   Config
	}{
		{"llama", Config{NormEps: 1e-6, Positions: 2048, Rope: Rope{Type: "default", Theta: 1e4}}},
		{"mistral", Config{NormEps: 1e-6, Positions: 131072, Rope: Rope{Type: "default", Theta: 1e4}, Window: 4096,
			WindowLayers: []bool{true, true, true}}},
		{"mixtral", Config{NormEps: 1e-5, Positions: 131072, Rope: Rope{Type: "default", Theta: 1e6}, Experts: 8,
			ExpertsPerToken: 2}},
		{"qwen2", Config{NormEps: 1e-6, Positions: 32768, Rope: Rope{Type: "default", Theta: 1e4}}},
		{"qwen3", Config{NormEps: 1e-6, Positions: 32768, Rope: Rope{Type: "default", Theta: 1e4}}},
		{"gpt2", Config{NormEps: 1e-5, Positions: 1024, Activation: "gelu_new", Intermediate: 64, Tied: true}},
	} {
		want := test.want
		want.Family, want.Vocab, want.Hidden, want.Layers, want.Heads = test.family, 40, 16, 3, 4
		want.KVHeads, want.HeadDim, want.InitStd = 4, 4, 0.02
		fill(&want.Activation, "silu")
		fill(&want.Intermediate, 24)
		if diff := cmp.Diff(want, parse(t, small(test.family, ""))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.family, diff)
		}
	}
}

// TestActivations: the functions that config.json names are those that their names say.
func TestActivations(t *testing.T) {
	s := newSession(t)
	x := 1.3
	gelu := x * (1 + math.Erf(x/math.Sqrt2)) / 2
	for name, want := range map[string]float64{
		"silu": x / (1 + math.Exp(-x)), "gelu": gelu, "gelu_python": gelu, "gelu_10": gelu, "relu2": x * x,
		"quick_gelu": x / (1 + math.Exp(-1.702*x)), "mish": x * math.Tanh(math.Log1p(math.Exp(x))), "linear": x,
		"leaky_relu": x, "relu6": x,
		"gelu_new": x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))),
	} {
		f, err := activationOf(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, f(s.Tensor(array.FromSlice([]float64{x}, 1)))).At(0); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestConfigKeys(t *testing.T) {
	window := func(c Config) any { return append([]bool{c.Window == 7}, c.WindowLayers...) }
	for _, test := range []struct {
		family, more string
		get          func(Config) any
		want         any
	}{
		{"llama", `, "head_dim": null`, func(c Config) any { return c.HeadDim }, 4},
		{"llama", `, "head_dim": 8`, func(c Config) any { return c.HeadDim }, 8},
		{"llama", `, "num_key_value_heads": null`, func(c Config) any { return c.KVHeads }, 4},
		{"llama", `, "num_key_value_heads": 2.0`, func(c Config) any { return c.KVHeads }, 2},
		{"llama", `, "attention_bias": true, "mlp_bias": true`,
			func(c Config) any { return c.AttentionBias && c.MLPBias }, true},
		{"llama", `, "rope_scaling": {"type": "linear", "factor": 2}`, func(c Config) any { return c.Rope },
			Rope{Type: "linear", Theta: 1e4, Factor: 2}},
		{"llama", `, "rope_scaling": {"rope_type": "default"}, "rope_theta": 5`,
			func(c Config) any { return c.Rope }, Rope{Type: "default", Theta: 5}},
		{"llama", `, "torch_dtype": "torch.float16"`, func(c Config) any { return c.DType }, array.F16},
		{"llama", `, "hidden_act": "gelu_pytorch_tanh"`, func(c Config) any { return c.Activation },
			"gelu_pytorch_tanh"},
		{"llama", `, "quantization_config": null, "some_flag": false, "some_size": 0`,
			func(c Config) any { return len(c.Other) }, 0},
		{"mistral", `, "sliding_window": null`, window, []bool{false}},
		{"mistral", `, "sliding_window": 7`, window, []bool{true, true, true, true}},
		{"qwen2", `, "sliding_window": 7, "use_sliding_window": false, "max_window_layers": 1`, window,
			[]bool{false}},
		{"qwen2", `, "sliding_window": null, "use_sliding_window": true, "max_window_layers": 1`, window,
			[]bool{false}},
		{"qwen3_moe", `, "sliding_window": null, "use_sliding_window": true`, window, []bool{false}},
		{"qwen2", `, "sliding_window": 7, "use_sliding_window": true, "max_window_layers": 1`, window,
			[]bool{true, false, true, true}},
		{"qwen3", `, "sliding_window": 7, "use_sliding_window": true, "layer_types": ["sliding_attention", "full_attention", "full_attention"]`,
			window, []bool{true, true, false, false}},
		{"qwen3", `, "attention_bias": true`, func(c Config) any { return c.AttentionBias }, true},
		{"gpt2", `, "n_inner": 99, "n_ctx": 1024`, func(c Config) any { return c.Intermediate }, 99},
		{"gpt2", `, "scale_attn_weights": false`, func(c Config) any { return c.UnscaledAttention }, true},
		{"gpt2", `, "scale_attn_by_inverse_layer_idx": true`, func(c Config) any { return c.ScaleByLayer }, true},
		{"gpt2", `, "tie_word_embeddings": false`, func(c Config) any { return c.Tied }, false},
		{"gpt2", `, "resid_pdrop": 0.1, "embd_pdrop": 0.2, "attn_pdrop": 0.3`,
			func(c Config) any { return c.Dropout }, Dropout{Embedding: 0.2, Residual: 0.1, Attention: 0.3}},
		{"bert", `, "hidden_dropout_prob": 0.2, "classifier_dropout": null`,
			func(c Config) any { return c.Dropout }, Dropout{Residual: 0.2, Attention: 0.1, Classifier: 0.2}},
		{"bert", `, "hidden_dropout_prob": 0.2, "classifier_dropout": 0.0`,
			func(c Config) any { return c.Dropout }, Dropout{Residual: 0.2, Attention: 0.1}},
		{"gpt2", `, "task_specific_params": {"text-generation": {"do_sample": true}}, "summary_type": "cls_index"`,
			func(c Config) any { return len(c.Other) }, 2},
	} {
		if diff := cmp.Diff(test.want, test.get(parse(t, small(test.family, test.more)))); diff != "" {
			t.Errorf("%s%s (-want +got):\n%s", test.family, test.more, diff)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{``, "unexpected end"},
		{"{\n\"a\": 1,\n}", "line 3"},
		{`[1]`, "want an object"},
		{`null`, "want an object"},
		{`{}`, `model_type: got "", want one of `},
		{`{"model_type": 3}`, `key "model_type": got 3, want a string`},
		{`{"model_type": "lama"}`, `got "lama", want one of `},
		{`{"model_type": "lama"}`, `the nearest is llama`},
		{small("llama", `, "architectures": ["LlamaForTokenClassification"]`), `want LlamaForCausalLM`},
		{`{"model_type": "llama"}`, `key "vocab_size": missing`},
		{small("llama", `, "vocab_size": -5`), `key "vocab_size": got -5, want at least 1`},
		{small("llama", `, "vocab_size": "many"`), `key "vocab_size": got "many", want a number`},
		{small("llama", `, "hidden_size": 16.5`), `key "hidden_size": got 16.5, want a whole number`},
		{small("llama", `, "hidden_size": 1e300`), `want a whole number`},
		{small("llama", `, "hidden_size": 18`), "hidden_size 18 is not a multiple of num_attention_heads 4"},
		{small("llama", `, "num_key_value_heads": 3`),
			"num_attention_heads 4 is not a multiple of num_key_value_heads 3"},
		{small("llama", `, "head_dim": 3`),
			"head_dim 3, partial_rotary_factor 1: 3 elements turn: want an even number"},
		{small("llama", `, "num_hidden_layers": 1000000000`), "num_hidden_layers: got 1000000000"},
		{small("llama", `, "hidden_act": "xielu"`), `hidden_act: activation "xielu": not supported`},
		{small("llama", `, "rms_norm_eps": 0`), `key "rms_norm_eps": got 0`},
		{small("llama", `, "tie_word_embeddings": "yes"`),
			`key "tie_word_embeddings": got "yes", want true or false`},
		{small("llama", `, "xyz": 3`), `key "xyz": not supported: it may change the model`},
		{small("llama", `, "quantization_config": {"bits": 4}`), `key "quantization_config": quant_method: got ""`},
		{small("llama", `, "rope_scaling": {"type": "dynamic"}`), "rope type dynamic: factor: got 0"},
		{small("llama", `, "rope_parameters": {"rope_type": "yarn", "factor": -1}`),
			"rope type yarn: factor: got -1"},
		{small("llama", `, "rope_parameters": {"rope_type": "yar", "factor": 2}`),
			`"yar" is not supported: want default, linear`},
		{small("llama", `, "rope_parameters": {"rope_type": "yar", "factor": 2}`), "the nearest is yarn"},
		{small("llama", `, "rope_parameters": {"rope_type": "longrope"}`),
			"got 0 in short_factor, 0 in long_factor: want 2"},
		{small("llama", `, "rope_parameters": {"rope_type": "yarn", "factor": 2, "gamma": 3}`),
			`key "gamma": not supported`},
		{small("llama", `, "partial_rotary_factor": 0.3`), "1 elements turn"},
		{small("llama", `, "rope_scaling": {"type": "linear"}`), "factor: got 0"},
		{small("llama", `, "rope_scaling": {"rope_type": "llama3", "factor": 8}`), "low_freq_factor"},
		{small("llama", `, "rope_scaling": [1]`), `key "rope_scaling": want an object`},
		{small("llama", `, "rope_theta": -1`), "rope_theta: got -1"},
		{small("llama", `, "torch_dtype": "int8"`), `key "torch_dtype": got "int8"`},
		{small("llama", `, "attention_dropout": 1.5`), "want a probability"},
		{small("mistral", `, "attention_bias": true`), `key "attention_bias": not supported`},
		{small("mixtral", `, "num_local_experts": 1`), "num_experts_per_tok 2, num_local_experts 1"},
		{small("mixtral", `, "output_router_logits": true`), `key "output_router_logits": not supported`},
		{small("mixtral", `, "router_jitter_noise": 0.1`), `key "router_jitter_noise": not supported`},
		{small("qwen2", `, "layer_types": ["full_attention"]`), "want one for each of 3 layers"},
		{small("qwen2", `, "layer_types": ["a", "b", "c"]`), `got "a"`},
		{small("gpt2", `, "n_head": 3`), "n_embd 16 is not a multiple of n_head 3"},
		{small("gpt2", `, "add_cross_attention": true`), `key "add_cross_attention": not supported`},
	} {
		_, err := ParseConfig([]byte(test.text))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q", test.text, err, test.want)
		}
	}
}

func TestReadConfigNamesFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadConfig(dir); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, configName)) {
		t.Errorf("no file: got %v", err)
	}
	os.WriteFile(filepath.Join(dir, configName), []byte("{\n  oops"), 0o666)
	if _, err := ReadConfig(dir); err == nil || !strings.Contains(err.Error(), configName+": line 2") {
		t.Errorf("bad file: got %v", err)
	}
}

// TestLlama3Frequencies compares with transformers' inverse frequencies of Llama 3.2 1B.
func TestLlama3Frequencies(t *testing.T) {
	got := parse(t, newerLlama).Rope.Frequencies(64, 0)
	plain := Rope{Type: "default", Theta: 500000}.Frequencies(64, 0)
	if got[0] != 1 || got[5] != plain[5] {
		t.Errorf("high frequencies: got %v, want them as they are", got[:6])
	}
	if last := len(got) - 1; math.Abs(got[last]-plain[last]/32) > 1e-18 {
		t.Errorf("low frequency: got %v, want %v", got[last], plain[last]/32)
	}
	for i := 1; i < len(got); i++ {
		if got[i] >= got[i-1] {
			t.Errorf("frequency %d: %v does not fall below %v", i, got[i], got[i-1])
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, family := range Families() {
		f.Add([]byte(small(family, `, "sliding_window": 7, "use_sliding_window": true, "max_window_layers": 1`)))
	}
	f.Add([]byte(olderLlama))
	f.Add([]byte(newerLlama))
	f.Add([]byte(small("llama", `, "rope_scaling": {"type": "linear", "factor": 2}`)))
	f.Add([]byte(small("llama", `, "transformers_version": "5.0.0"`)))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConfig(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatalf("%s: cannot be written: %v", text, err)
		}
		back, err := ParseConfig(again)
		if err != nil {
			t.Fatalf("%s\nis written as %s: %v", text, again, err)
		}
		if diff := cmp.Diff(c, back); diff != "" {
			t.Fatalf("%s\nis written as %s (-want +got):\n%s", text, again, diff)
		}
	})
}

// TestHeadsLeftOut: heads that config.json does not mention are what transformers takes them to be; null is
// as many as there are, and an equal share.
func TestHeadsLeftOut(t *testing.T) {
	for family, want := range map[string][2]int{
		"llama": {64, 32}, "mistral": {8, 32}, "mixtral": {8, 32}, "qwen2": {32, 32}, "qwen3": {32,
			128}, "qwen3_moe": {4, 32},
		"gemma": {16, 256}, "gemma2": {4, 256}, "gemma3_text": {4, 256}, "ernie4_5": {2, 128}, "ernie4_5_moe": {4,
			32},
	} {
		text := `{"model_type": "` + family + `", "vocab_size": 40, "hidden_size": 2048, "intermediate_size": 24,
			"num_hidden_layers": 2, "num_attention_heads": 64`
		if c := parse(t, text+"}"); c.KVHeads != want[0] || c.HeadDim != want[1] {
			t.Errorf("%s: got %d heads of keys of size %d, want %v", family, c.KVHeads, c.HeadDim, want)
		}
		if c := parse(t, text+`, "num_key_value_heads": null}`); c.KVHeads != 64 {
			t.Errorf("%s: null: got %d heads of keys, want 64", family, c.KVHeads)
		}
	}
}

// TestFirstFiles: keys of files as their makers published them, which transformers does not look at, and
// numbers as Python's json prints them.
func TestFirstFiles(t *testing.T) {
	parse(t, small("gemma2", `, "cache_implementation": "hybrid", "sliding_window_size": 4096, "head_dim": 4`))
	parse(t, small("bert", `, "directionality": "bidi", "pooler_fc_size": 768, "pooler_num_attention_heads": 12,
		"pooler_num_fc_layers": 3, "pooler_size_per_head": 128, "pooler_type": "first_token_transform"`))
	parse(t, small("ernie4_5_moe", `, "moe_capacity": [64, 64, 64], "moe_gate": "topk", "moe_use_aux_free": true,
		"num_nextn_predict_layers": 1, "use_rmsnorm": true, "num_key_value_heads": 2, "auto_map": {"a": "b"}`))
	c := parse(t, `{"model_type": "mamba2", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2,
		"num_heads": 4, "head_dim": 8, "n_groups": 2, "time_step_limit": [0.01, Infinity], "note": ""}`)
	if r := c.Recurrence; r.MinStep != 0.01 || !math.IsInf(r.MaxStep, 1) {
		t.Errorf("time_step_limit: got %v and %v, want 0.01 and infinity", r.MinStep, r.MaxStep)
	}
	for text, want := range map[string]string{
		small("llama", `, "rope_theta": NaN`):           `key "rope_theta"`,
		small("bert", `, "pooler_type": "mean"`):        `key "pooler_type"`,
		small("ernie4_5_moe", `, "moe_gate": "expert"`): `key "moe_gate"`,
	} {
		if _, err := ParseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %s", text, err, want)
		}
	}
}
