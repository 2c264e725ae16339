package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/strategy"
)

// priced parses a config and prices it, as galley plan does. It must not panic, whatever the config says.
func priced(t *testing.T, text string) (plan.Model, error) {
	t.Helper()
	m, err := forecast.ReadModel("x", []byte(text))
	if err != nil {
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: several lines: %v", text, err)
		}
		return m, err
	}
	hw, err := cluster.Parse("8 H100-SXM")
	if err != nil {
		t.Fatal(err)
	}
	w := plan.Workload{Model: m, Batch: 8, Seq: 128}
	e, err := plan.NewEstimator(w, hw, plan.Default(hw, w))
	if err != nil {
		return m, err
	}
	for _, s := range []strategy.Strategy{{DP: 8, Micro: 1, Zero: 1}, {DP: 2, TP: 4, Micro: 1, Sequence: true}} {
		if x, err := e.Estimate(s); err == nil && !(x.Step > 0 && !math.IsInf(x.Step, 0)) {
			t.Errorf("%s: %v takes %v", text, s, x.Step)
		}
	}
	return m, nil
}

// randomConfig returns a config.json of a family that can be built, with sizes that may or may not go
// together.
func randomConfig(r *rand.Rand) string {
	pick := func(list ...int) int { return list[r.IntN(len(list))] }
	heads := pick(1, 2, 3, 4, 6, 8)
	m := map[string]any{
		"model_type": models.Families()[r.IntN(len(models.Families()))], "vocab_size": pick(1, 100,
			32000), "num_hidden_layers": pick(1, 2, 5),
		"hidden_size": heads * pick(1, 8, 9, 33, 64), "num_attention_heads": heads, "intermediate_size": pick(1, 64,
			1000),
	}
	for key, value := range map[string]any{
		"num_key_value_heads": pick(1, 2, heads), "head_dim": pick(1, 7, 32, 33, 64), "sliding_window": pick(1,
			4096),
		"tie_word_embeddings": r.IntN(2) == 0, "num_local_experts": pick(1, 4, 8), "num_experts_per_tok": pick(1, 2,
			9), "attention_bias": true,
		"num_experts": pick(2, 8), "moe_intermediate_size": pick(1, 32),
	} {
		if r.IntN(2) == 0 {
			m[key] = value
		}
	}
	if m["model_type"] == "gpt2" {
		m["n_embd"], m["n_head"], m["n_layer"] = m["hidden_size"], heads, m["num_hidden_layers"]
		for _, key := range []string{"hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size",
			"num_key_value_heads", "head_dim"} {
			delete(m, key)
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// TestConfigsPlanned: what the reader of models takes can be planned, and what it refuses is refused by the
// planner, too.
func TestConfigsPlanned(t *testing.T) {
	r, planned := rand.New(rand.NewPCG(26, 0)), 0
	for range 1000 {
		text := randomConfig(r)
		_, read := models.ParseConfig([]byte(text))
		_, err := priced(t, text)
		if read != nil && err == nil {
			t.Errorf("%s: models refuse it, the planner does not: %v", text, read)
		}
		if err == nil {
			planned++
		}
	}
	if planned < 10 {
		t.Errorf("only %d of 1000 configs can be planned", planned)
	}
}

// TestPlannedParameters: of models that can be built the planner counts the parameters that there are, to
// what small vectors make.
func TestPlannedParameters(t *testing.T) {
	const sizes = `"num_hidden_layers": 3, "hidden_size": 256, "num_attention_heads": 8, "intermediate_size": 700, "vocab_size": 1000`
	for family, more := range map[string]string{
		"llama": `, "num_key_value_heads": 2`, "mistral": "", "qwen2": `, "num_key_value_heads": 4, "head_dim": 64`,
		"qwen3":   `, "num_key_value_heads": 4`,
		"mixtral": `, "num_key_value_heads": 4`,
	} {
		text := fmt.Sprintf(`{"model_type": %q, %s%s}`, family, sizes, more)
		m, err := priced(t, text)
		if err != nil {
			t.Errorf("%s: %v", family, err)
			continue
		}
		c, err := models.ParseConfig([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := m.Params(), parameters(c); math.Abs(got/want-1) > 0.005 {
			t.Errorf("%s: the planner counts %.0f parameters, the model has %.0f", family, got, want)
		}
	}
}

func FuzzPlanConfig(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomConfig(rand.New(rand.NewPCG(seed, 1))))
	}
	f.Add(`{"model_type": "opt", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 9, "ffn_dim": 1}`)
	f.Add(`{"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 9, "intermediate_size": 8, "kv_lora_rank": 3}`)
	f.Fuzz(func(t *testing.T, text string) { priced(t, text) })
}
