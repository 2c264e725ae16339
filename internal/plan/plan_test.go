package plan

import (
	"math"
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/strategy"
)

func mustCluster(t testing.TB, s string) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustModel(t testing.TB, name string) Model {
	t.Helper()
	m, err := ModelPreset(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s: got %.10g, want %.10g", what, got, want)
	}
}

// TestVectors holds planner.md §3.10.
func TestVectors(t *testing.T) {
	near(t, "llama 8b", ptr(mustModel(t, "llama-3.1-8b")).Params(), 8030261248, 0)
	near(t, "llama 70b", ptr(mustModel(t, "llama-3.1-70b")).Params(), 70553706496, 0)
	near(t, "llama 405b", ptr(mustModel(t, "llama-3.1-405b")).Params(), 405853388800, 0)
	near(t, "flops a token", ptr(mustModel(t, "llama-3-8b")).FlopsPerToken(8192)/1e9, 57.91, 0.005)
	mpt := gpt("mpt-7b", 32, 4096, 32, 2048)
	mpt.Vocab = 50368
	near(t, "mpt 7b", mpt.Params(), 6658859008, 0)
}

func ptr[T any](x T) *T { return &x }

// korthikanti are the four models of arXiv 2205.05198 on A100, batches as there.
var korthikanti = []struct {
	name                                               string
	layers, hidden, heads, pp, vpp, micro, batch, gpus int
	step, mfu, plain, selective                        float64
}{
	{"22B", 48, 6144, 64, 1, 1, 4, 4, 8, 1.10, 0.4165, 59.25, 9.5625},
	{"175B", 96, 12288, 96, 8, 3, 1, 64, 64, 13.75, 0.5139, 66.84375, 12.3515625},
	{"530B", 105, 20480, 128, 35, 3, 1, 280, 280, 37.83, 0.5605, 114.0234375, 23.076171875},
	{"1T", 128, 25600, 160, 64, 1, 1, 512, 512, 71.49, 0.5627, 131.25, 26.5625},
}

func TestKorthikanti(t *testing.T) {
	for _, c := range korthikanti {
		m := gpt(c.name, c.layers, c.hidden, c.heads, 2048)
		m.Vocab = 51200
		w := Workload{Model: m, Batch: c.batch, Seq: 2048, Software: Software{Unfused: true, Dropout: true}}
		k := mustCluster(t, map[bool]string{true: "1x8 A100", false: "64x8 A100 ib=200G"}[c.gpus == 8])
		k.Groups[0].Hosts = c.gpus / 8
		e, err := NewEstimator(w, k, Calibration{})
		if err != nil {
			t.Fatal(err)
		}
		s := strategy.Strategy{DP: 1, TP: 8, PP: c.pp, VPP: c.vpp, MicroBatch: c.micro}
		got, err := e.Estimate(s)
		if err != nil {
			t.Fatal(err)
		}
		near(t, c.name+" activations", got.Stages[0].Memory.Activations/(1<<30), c.plain, 1e-9)
		s.Sequence, s.Recompute = true, strategy.Selective
		if got, err = e.Estimate(s); err != nil {
			t.Fatal(err)
		}
		near(t, c.name+" activations, selective", got.Stages[0].Memory.Activations/(1<<30), c.selective, 1e-9)
		mfu := m.FlopsPerToken(2048) * w.Tokens() / (c.step * float64(c.gpus) * 312e12)
		near(t, c.name+" mfu", mfu, c.mfu, 0.0001)
		t.Logf("%s: %.2f s, measured %.2f, parts %+v", c.name, got.Step, c.step, got.Parts)
	}
}

func BenchmarkEstimate(b *testing.B) {
	w := Workload{Model: mustModel(b, "llama-3-405b"), Batch: 2048, Seq: 8192}
	e, err := NewEstimator(w, mustCluster(b, "2048x8 H100 ib=400G"), Calibration{})
	if err != nil {
		b.Fatal(err)
	}
	s := strategy.Strategy{DP: 128, TP: 8, PP: 16, MicroBatch: 1, Sequence: true, Zero: 1}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Estimate(s); err != nil {
			b.Fatal(err)
		}
	}
}
