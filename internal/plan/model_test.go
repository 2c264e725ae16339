package plan

import (
	"math"
	"strings"
	"testing"
)

// TestParams compares presets with the counts that their authors give.
func TestParams(t *testing.T) {
	for name, want := range map[string]float64{
		"llama-2-7b": 6738415616, "llama-2-13b": 13015864320, "llama-2-70b": 68976648192,
		"llama-3-8b": 8030261248, "llama-3.2-1b": 1235814400, "llama-3.2-3b": 3212749824,
		"gpt2": 124439808, "qwen2.5-0.5b": 494032768, "qwen2.5-7b": 7615616512,
		"mixtral-8x7b": 46702792704,
	} {
		m := mustModel(t, name)
		if got := m.Params(); got != want {
			t.Errorf("%s: %.0f parameters, want %.0f", name, got, want)
		}
	}
	for name, billions := range map[string]float64{"gpt3-175b": 174.6, "deepseek-v3": 671, "qwen3-30b-a3b": 30.5,
		"qwen3-235b-a22b": 235.1, "mixtral-8x22b": 140.6, "kimi-k2": 1026.4} {
		m := mustModel(t, name)
		if got := m.Params() / 1e9; math.Abs(got-billions) > 0.005*billions {
			t.Errorf("%s: %.1f billion parameters, want %.1f", name, got, billions)
		}
	}
}

func TestModelNames(t *testing.T) {
	for _, s := range []string{"Llama-3.1-8B", "llama3-8b", "LLAMA_3_8B", "meta-llama/Meta-Llama-3-8B-Instruct",
		"meta-llama/Llama-3.1-8B"} {
		if m, err := ModelPreset(s); err != nil || m.Name != "llama-3-8b" {
			t.Errorf("%s: got %s, %v", s, m.Name, err)
		}
	}
	if _, err := ModelPreset("lama-3-8b"); err == nil || !strings.Contains(err.Error(), "llama-3-8b") {
		t.Errorf("got %v, want the near name", err)
	}
}

const mixtralConfig = `{"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
"num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000, "tie_word_embeddings": false, "sliding_window": null}`

const deepseekConfig = `{"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61,
"num_attention_heads": 128, "num_key_value_heads": 128, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280}`

func TestParseModel(t *testing.T) {
	for text, name := range map[string]string{
		mixtralConfig:  "mixtral-8x7b",
		deepseekConfig: "deepseek-v3",
		`{"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}`: "gpt2",
	} {
		m, err := ParseModel("x", []byte(text))
		if err != nil {
			t.Error(err)
			continue
		}
		want := mustModel(t, name)
		if m.Params() != want.Params() || m.FlopsPerToken(4096) != want.FlopsPerToken(4096) {
			t.Errorf("%s: read as %+v", name, m)
		}
	}
	for _, text := range []string{"", "[]",
		`{"hidden_size": 3, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 1, "intermediate_size": 1}`, `{"num_hidden_layers": -1}`} {
		if _, err := ParseModel("x", []byte(text)); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v, want one line", text, err)
		}
	}
}

func FuzzParseModel(f *testing.F) {
	f.Add(mixtralConfig)
	f.Add(deepseekConfig)
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := ParseModel("x", []byte(text)); err == nil && !(m.Params() > 0) {
			t.Errorf("%s: %g parameters", text, m.Params())
		}
	})
}

func FuzzParseCalibration(f *testing.F) {
	f.Add(
		[]byte(
			"level: 1\ndevices:\n- device: cpu\n  ceiling: 0.5\n  products:\n  - {m: 1, n: 2, k: 3, efficiency: " +
				"0.5}\n",
		),
	)
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseCalibration(text)
		if err != nil {
			return
		}
		if _, err := ParseCalibration(c.YAML()); err != nil {
			t.Fatalf("%q writes as %q: %v", text, c.YAML(), err)
		}
	})
}

// TestPixels: images have a side, or a height and a width.
func TestPixels(t *testing.T) {
	const rest = `{"model_type": "vit", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, `
	for text, positions := range map[string]int{`"image_size": 12, "patch_size": 4}`: 10,
		`"image_size": [12, 8], "patch_size": [4, 2]}`: 13, `"patch_size": 16}`: 197} {
		if m, err := ParseModel("x", []byte(rest+text)); err != nil || m.Positions != positions {
			t.Errorf("%s: got %d positions, %v, want %d", text, m.Positions, err, positions)
		}
	}
	if _, err := ParseModel("x", []byte(rest+`"image_size": "large"}`)); err == nil {
		t.Error("a word is taken for a size")
	}
}
