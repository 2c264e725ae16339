package dryrun

import (
	"fmt"
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/internal/search"
)

func TestTmp(t *testing.T) {
	for _, x := range []struct{ m, c string; layers, batch, seq int }{
		{"llama-3.2-1b", "1x8 A100-40G", 16, 64, 2048}, {"llama-3-8b", "2x8 H100-SXM ib=400G", 32, 256, 4096}, {"mixtral-8x7b", "2x8 H100-SXM ib=400G", 8, 64, 4096},
		{"gpt3-1.3b", "1x4 A100-40G", 24, 64, 2048},{"deepseek-v3", "4x8 H100-SXM ib=400G", 8, 64, 4096},
		{"qwen2.5-7b", "1x8 A100-40G", 28, 64, 2048},
		{"llama-3-8b", "1x8 H100-SXM", 32, 16, 131072},
	} {
		m, err := plan.ModelPreset(x.m)
		if err != nil { t.Error(err); continue }
		m.Layers = x.layers
		c, err := cluster.Parse(x.c)
		if err != nil { t.Error(err); continue }
		w := plan.Workload{Model: m, Batch: x.batch, Seq: x.seq, Precision: "bf16"}
		start := time.Now()
		a, err := search.Find(search.Config{Workload: w, Cluster: c, Top: 3, Workers: 1}, plan.Default(c, w))
		if err != nil || a.Misfit != nil { t.Error(x, err, a.Misfit); continue }
		found := time.Since(start)
		for _, p := range a.Plans {
			f := planfile.New(w, c, p.Strategy, p.Estimate)
			run, err := File(f, modelsConfig())
			if err != nil { fmt.Println(x, p.Strategy.Line(), "FILE", err); continue }
			start = time.Now()
			q, err := Plan(run)
			if err != nil { fmt.Println(x, p.Strategy.Line(), "PLAN", err, time.Since(start)); continue }
			fmt.Println(x, p.Strategy.Line(), "search", found, "tapes", time.Since(start), q.Devices[0].Memory, "estimate", p.Estimate.Memory.Total())
		}
	}
}
