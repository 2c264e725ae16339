package search

import (
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
)

func realConfig(t testing.TB, model, hardware string, batch, seq int) Config {
	t.Helper()
	m, err := plan.ModelPreset(model)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Parse(hardware)
	if err != nil {
		t.Fatal(err)
	}
	w := plan.Workload{Model: m, Batch: batch, Seq: seq}
	e, err := plan.NewEstimator(w, c, plan.Calibration{})
	if err != nil {
		t.Fatal(err)
	}
	return Config{Workload: w, Cluster: c, Workers: 2, Pricer: e}
}

func TestReal(t *testing.T) {
	for _, x := range []struct {
		model, hardware string
		batch, seq      int
	}{
		{"llama-3-8b", "8x8 H100-SXM ib=400G", 512, 8192},
		{"llama-3-405b", "2048x8 H100-SXM ib=400G", 2048, 8192},
		{"deepseek-v3", "256x8 H100-SXM ib=400G", 15360, 4096},
	} {
		start := time.Now()
		r, err := Search(realConfig(t, x.model, x.hardware, x.batch, x.seq))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v: %d cells, %d visited, %d priced", x.model, time.Since(start), r.Cells, r.Visited, r.Priced)
		for _, p := range r.Plans {
			t.Logf("  %.3f s MFU %.3f %.1f GB %s bubble %.3f", p.Estimate.Step, p.Estimate.MFU, p.Estimate.Memory.Total()/1e9, p.Strategy, p.Estimate.Parts.Bubble)
		}
	}
}
