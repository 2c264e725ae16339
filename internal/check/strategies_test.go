package check_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/check"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// small returns the shape of models that the table is run on in tests.
func small(family string) models.Config {
	c := models.Config{Family: family, Vocab: 32, Hidden: 16, Intermediate: 24, Layers: 4, Heads: 4, KVHeads: 4,
		Positions: 16, InitStd: 0.2, Tied: family != "llama"}
	if family == "mixtral" {
		c.Experts, c.ExpertsPerToken = 4, 2
	}
	return c
}

// recording writes a model with the losses of training op by op on one device, in the form of recorded ones.
func recording(t *testing.T, d *galley.Device, c models.Config, steps int) string {
	t.Helper()
	dir := t.TempDir()
	m, err := models.New(c, nn.Config{Scope: d.NewSession(), Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	if err := models.Save(dir, m, models.SaveConfig{}); err != nil {
		t.Fatal(err)
	}
	const batch, seq = 8, 8
	ids := array.New(array.I32, steps, batch, seq+1)
	for i := range ids.Len() {
		ids.Set(i, float64((i*7+i*i%11)%c.Vocab))
	}
	if m, err = models.Load(dir, nn.Config{Scope: d.NewSession(), DType: array.F64}); err != nil {
		t.Fatal(err)
	}
	tr, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Params: m.Params(), Mode: galley.Eager, ClipNorm: 1, Optimizer: optim.AdamW{Beta1: 0.9,
			Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1},
		Schedule: optim.Constant{LR: 0.01},
		Loss: func(b []*op.Tensor) *op.Tensor {
			return m.Loss(op.Narrow(b[0], 1, 0, seq), op.Narrow(b[0], 1, 1, seq+1))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var losses []float64
	for i := range steps {
		r, err := tr.Step(ids.Rows(i, i+1).Reshape(batch, seq+1))
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, r.Loss)
	}
	if err := safetensors.Write(filepath.Join(dir, "reference.safetensors"),
		[]safetensors.Named{{Name: "ids", Array: ids}}, nil); err != nil {
		t.Fatal(err)
	}
	writeReference(t, dir, losses)
	return dir
}

func writeReference(t *testing.T, dir string, losses []float64) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"losses": losses, "optimizer": map[string]any{
		"name": "AdamW", "lr": 0.01, "betas": []float64{0.9,
			0.95}, "eps": 1e-8, "weight_decay": 0.1, "clip_norm": 1, "decay_all": true,
	}})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "reference.json"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestStrategies runs a part of the table on small models; galley check strategies runs all of it on recorded
// ones.
func TestStrategies(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 1})
	t.Cleanup(d.Close)
	for family, filters := range map[string][]string{
		"llama":   {"llama tp3", "llama dp2·tp2·pp2 ", "llama cp", "llama×8 pp4 interleaved"},
		"qwen2":   {"qwen2 dp4·tp2", "qwen2 pp2 1f1b ×4 layers", "qwen2 tp2"},
		"gpt2":    {"gpt2 dp3", "gpt2 pp2 zb", "sp"},
		"mixtral": {"ep2", "ep4"},
	} {
		t.Run(family, func(t *testing.T) {
			if testing.Short() && family != "mixtral" {
				t.Skip("short")
			}
			t.Parallel()
			dir := recording(t, d, small(family), 3)
			for _, f := range filters {
				var out strings.Builder
				r, err := check.Strategies(&out, []string{dir}, check.StrategiesConfig{Device: d, Filter: f})
				if err != nil {
					t.Fatal(err)
				}
				if r.Failed() != 0 || r.Passed() == 0 {
					t.Errorf("%s: %s", f, out.String())
				}
			}
		})
	}
}

// TestStrategiesFail: rows whose losses are not those that were recorded do not hold.
func TestStrategiesFail(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	dir := recording(t, d, small("llama"), 2)
	writeReference(t, dir, []float64{3, 3})
	var out strings.Builder
	r, err := check.Strategies(&out, []string{dir}, check.StrategiesConfig{Device: d, Filter: "llama dp2 zero"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Passed() != 0 || r.Failed() == 0 || !strings.Contains(out.String(),
		"from the recorded curve: loss 0 differs by") {
		t.Error(out.String())
	}
	if text := r.Markdown(); !strings.Contains(text, "**fails**: f32: from the recorded curve") {
		t.Error(text)
	}
}

// TestTable: the page has every row of the table.
func TestTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "equivalence.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, family := range []string{"llama", "qwen2", "gpt2", "mixtral"} {
		c := models.Config{Family: family, Layers: 4}
		if family == "mixtral" {
			c.Layers, c.Experts = 2, 4
		}
		for _, name := range check.StrategyNames(c) {
			rows++
			if !strings.Contains(string(text), "| "+name+" | ") {
				t.Errorf("docs/equivalence.md has no row %q: write it again with galley check strategies", name)
			}
		}
	}
	if rows < 100 {
		t.Errorf("the table has %d rows, want at least 100", rows)
	}
	if strings.Contains(string(text), "fails") {
		t.Error("docs/equivalence.md has rows that fail")
	}
}
