package check_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/check"
	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/internal/search"
	"github.com/galley-ml/galley/strategy"
)

// TestPlans: some of the pairs of galley check plans, which tries all fifty.
func TestPlans(t *testing.T) {
	if n := len(check.Pairs()); n < 50 {
		t.Errorf("%d pairs, want 50", n)
	}
	filters := []string{"gpt3-125m", "etp=2", "gather", "offload.optimizer=0.5"}
	if testing.Short() {
		filters = filters[:1]
	}
	for _, filter := range filters {
		var out bytes.Buffer
		r, err := check.Plans(&out, check.PlansConfig{Filter: filter})
		if err != nil {
			t.Fatal(err)
		}
		if r.Failed() > 0 || r.Passed() == 0 {
			t.Errorf("%s:\n%s", filter, out.String())
		}
	}
}

// TestPlannedOffloads: plans that offload, or shard in groups, are run as they are: every line of the search
// space is.
func TestPlannedOffloads(t *testing.T) {
	m, err := plan.ModelPreset("gpt3-125m")
	if err != nil {
		t.Fatal(err)
	}
	m.Layers, m.Vocab = 2, 512
	hw, err := cluster.Parse("2x2 H100-SXM ib=400G")
	if err != nil {
		t.Fatal(err)
	}
	w := plan.Workload{Model: m, Batch: 8, Seq: 2048, Precision: "bf16"}
	lines := []string{"zero=3 shard=2", "offload.optimizer=1 offload.activations=0.5",
		"zero=1 shard=2 offload.optimizer=0.5",
		"cp=2 cp_kind=gather", "pp=2 schedule=zbh1 offload.activations=1"}
	if testing.Short() {
		lines = lines[:2]
	}
	for _, line := range lines {
		pin, err := search.ParsePin(line)
		if err != nil {
			t.Fatal(err)
		}
		a, err := search.Find(search.Config{Workload: w, Cluster: hw, Pin: pin, Top: 1}, plan.Default(hw, w))
		if err != nil || a.Misfit != nil {
			t.Fatal(line, err, a.Misfit)
		}
		x := a.Plans[0]
		if _, err := check.Planned(filepath.Join(t.TempDir(), "plan.yaml"),
			planfile.New(w, hw, x.Strategy, x.Estimate)); err != nil {
			t.Errorf("%s: %v", x.Strategy.Line(), err)
		}
	}
	w.Precision = "fp8"
	_, err = check.Planned(filepath.Join(t.TempDir(), "plan.yaml"),
		planfile.New(w, hw, strategy.Strategy{DP: 4, MicroBatch: 1},
			plan.Estimate{Step: 1}))
	if err == nil || !strings.Contains(err.Error(), "plan with --precision bf16") {
		t.Errorf("fp8: got %v", err)
	}
}

// TestEstimates: the search's estimate of memory covers what tapes take, for strategies of every kind and not
// only for those that a search prefers.
func TestEstimates(t *testing.T) {
	const eight = "2x4 H100-SXM ib=400G"
	lines := []struct{ model, line string }{
		{"llama-3-8b", "dp=8 micro_batch=1"}, {"llama-3-8b", "dp=8 micro_batch=1 zero=2"},
		{"llama-3-8b", "dp=2 tp=2 pp=2 micro_batch=1 sp"},
		{"llama-3-8b", "dp=4 cp=2 micro_batch=1 zero=1 cp_kind=ring"},
		{"deepseek-v3", "dp=8 ep=8 micro_batch=1 zero=1"},
		{"deepseek-v3", "dp=2 tp=4 ep=8 micro_batch=1 zero=1 sp"},
		{"mixtral-8x7b", "dp=8 ep=8 micro_batch=1"},
		{"mixtral-8x7b", "dp=8 ep=8 micro_batch=2 offload.optimizer=1"},
		{"kimi-k2", "dp=4 tp=2 ep=8 micro_batch=1 zero=2 sp offload.optimizer=0.5"},
	}
	if testing.Short() {
		lines = lines[:2]
	}
	for _, c := range lines {
		m, err := plan.ModelPreset(c.model)
		if err != nil {
			t.Fatal(err)
		}
		m.Layers = 4
		hw, err := cluster.Parse(eight)
		if err != nil {
			t.Fatal(err)
		}
		w := plan.Workload{Model: m, Batch: 16, Seq: 2048, Precision: "bf16"}
		e, err := plan.NewEstimator(w, hw, plan.Default(hw, w))
		if err != nil {
			t.Fatal(err)
		}
		s, err := strategy.Parse(c.line)
		if err != nil {
			t.Fatal(err)
		}
		x, err := e.Exact(s)
		if err != nil {
			t.Fatal(err)
		}
		most, err := check.Planned(filepath.Join(t.TempDir(), "plan.yaml"), planfile.New(w, hw, s, x))
		if err != nil {
			t.Fatal(err)
		}
		ratio := x.Memory.Total() / float64(most)
		t.Logf("%s %s: %.2f", c.model, c.line, ratio)
		if ratio < check.LeastEstimate {
			t.Errorf("%s, %s: estimated %.0f bytes, %.2f of the %d that it takes: want %.2f", c.model, c.line,
				x.Memory.Total(), ratio, most, check.LeastEstimate)
		}
	}
}
