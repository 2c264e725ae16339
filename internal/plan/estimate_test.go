package plan

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/strategy"
)

func estimator(t testing.TB, model, hardware string, batch, seq int, s Software) *Estimator {
	t.Helper()
	w := Workload{Model: mustModel(t, model), Batch: batch, Seq: seq, Software: s}
	c := mustCluster(t, hardware)
	e, err := NewEstimator(w, c, Default(c, w))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func estimate(t testing.TB, e *Estimator, s strategy.Strategy) Estimate {
	t.Helper()
	got, err := e.Estimate(s)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestStates holds ZeRO's own example: 7.5 billion parameters over 64 ranks, gradients of 16 bits.
func TestStates(t *testing.T) {
	e := &Estimator{bytes: 2, w: Workload{Software: Software{GradBytes: 2}}}
	for zero, want := range []float64{120, 31.40625, 16.640625, 1.875} {
		m := e.stateBytes(7.5e9, 64, &strategy.Strategy{Zero: zero, PP: 1})
		near(t, fmt.Sprintf("zero %d", zero), (m.Weights+m.Gradients+m.Optimizer)/1e9, want, 1e-9)
	}
	w := Workload{Model: mustModel(t, "llama-3-8b"), Batch: 8, Seq: 8192}
	e8, err := NewEstimator(w, mustCluster(t, "8 H100"), Calibration{})
	if err != nil {
		t.Fatal(err)
	}
	m := estimate(t, e8, strategy.Strategy{DP: 8, Zero: 3}).Memory
	near(t, "llama 8b on 8 devices", (m.Weights+m.Gradients+m.Optimizer)/(1<<30), 14.96, 0.005)
}

// TestActivations holds Megatron's own check: 68 MiB of a layer with sequence parallelism, 208 MiB without.
func TestActivations(t *testing.T) {
	m := Model{Layers: 1, Hidden: 4096, Heads: 32, FFN: 4 * 4096, Vocab: 1}
	e := &Estimator{bytes: 2, w: Workload{Model: m, Seq: 4096, Software: Software{Unfused: true, Dropout: true}}}
	s := strategy.Strategy{TP: 8, CP: 1, MicroBatch: 1, Sequence: true, Recompute: strategy.Selective}
	near(t, "with", e.layerActivations(&s, false)/(1<<20), 68, 0)
	s.Sequence = false
	near(t, "without", e.layerActivations(&s, false)/(1<<20), 208, 0)
}

// TestParts says that parts add up and intervals hold the step, for whatever strategy is possible.
func TestParts(t *testing.T) {
	e := estimator(t, "mixtral-8x7b", "4x8 H100 ib=400G", 256, 4096, Software{})
	rapid.Check(t, func(r *rapid.T) {
		pow := func(name string, most int) int { return 1 << rapid.IntRange(0, most).Draw(r, name) }
		s := strategy.Strategy{TP: pow("tp", 3), PP: pow("pp", 2), CP: pow("cp", 1), EP: pow("ep", 3),
			VPP:        pow("vpp", 1),
			MicroBatch: pow("micro", 1),
			Zero:       rapid.IntRange(0, 3).Draw(r, "zero"), Sequence: rapid.Bool().Draw(r, "sp")}
		s.DP = 32 / (s.TP * s.PP * s.CP)
		s.Recompute = rapid.SampledFrom([]strategy.Recompute{"", strategy.Selective, strategy.Full}).Draw(r,
			"recompute")
		if e.Check(s) != nil {
			return
		}
		got, err := e.Estimate(s)
		if err != nil {
			r.Fatal(err)
		}
		if math.Abs(got.Parts.Sum()-got.Step) > 1e-9*got.Step || !(got.Low < got.Step && got.Step < got.High) ||
			!(got.MFU > 0 && got.MFU < 1) {
			r.Fatalf("%s: step %g in [%g, %g], parts %g, MFU %g", s, got.Step, got.Low, got.High, got.Parts.Sum(),
				got.MFU)
		}
		for _, p := range []float64{got.Parts.Compute, got.Parts.Recompute, got.Parts.TP, got.Parts.CP,
			got.Parts.EP, got.Parts.PP, got.Parts.DP, got.Parts.Bubble, got.Parts.Optimizer} {
			if !(p >= 0) {
				r.Fatalf("%s: a part below zero: %+v", s, got.Parts)
			}
		}
		again, err := e.Estimate(s)
		if err != nil || again.Step != got.Step {
			r.Fatalf("%s: %g and then %g, %v", s, got.Step, again.Step, err)
		}
	})
}

// TestShortened says that an estimate, which simulates a few rounds, agrees with the simulation of all
// micro-batches.
func TestShortened(t *testing.T) {
	e := estimator(t, "llama-3-70b", "32x8 H100 ib=400G", 1024, 4096, Software{})
	for _, s := range []strategy.Strategy{
		{DP: 4, TP: 8, PP: 8, MicroBatch: 1, Sequence: true, Zero: 1},
		{DP: 8, TP: 8, PP: 4, VPP: 5, MicroBatch: 2, Sequence: true, Zero: 1},
		{DP: 4, TP: 8, PP: 8, VPP: 2, MicroBatch: 1, Zero: 1, Schedule: "zbv"},
		{DP: 4, TP: 8, PP: 8, MicroBatch: 1, Zero: 1, Schedule: "zbh1"},
		{DP: 2, TP: 8, PP: 16, MicroBatch: 1, Zero: 1,
			Layers: []int{4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 6, 5}},
	} {
		got := estimate(t, e, s)
		order, costs, err := e.Pipeline(s)
		if err != nil {
			t.Fatal(err)
		}
		line, err := pipeline.Simulate(order, costs)
		if err != nil {
			t.Fatal(err)
		}
		p := &got.Parts
		flow := p.Compute + p.Recompute + p.TP + p.CP + p.EP + p.PP + p.Bubble + p.Fixed
		if math.Abs(flow-line.Makespan) > 0.01*line.Makespan {
			t.Errorf("%s: %g s estimated, %g simulated in full", s, flow, line.Makespan)
		}
	}
}

func TestImpossible(t *testing.T) {
	e := estimator(t, "llama-3-8b", "2x8 H100 ib=400G", 64, 8192, Software{})
	for line, want := range map[string]string{
		"dp=4 tp=2 pp=1":                 "8 devices: the cluster has 16",
		"dp=16 micro_batch=3":            "want a multiple of 48",
		"dp=1 tp=16 micro_batch=1 cp=-1": "at least 1",
		"dp=1 pp=16 vpp=4":               "more than 32 layers",
		"dp=16 zero=4":                   "want 0 to 3",
		"dp=8 tp=2 ep=2":                 "no experts",
		"dp=8 pp=2 schedule=sideways":    "want one of",
		"dp=8 pp=2 vpp=1 schedule=zbv":   "2 chunks",
		"dp=8 pp=2 layers=30,1":          "the model has 32",
		"dp=16 shard=3":                  "does not divide",
	} {
		s, err := strategy.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = e.Estimate(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
}

// TestScheduleSpellings says that a schedule is the same in any letters: its ranks, its bubble and its
// memory.
func TestScheduleSpellings(t *testing.T) {
	e := estimator(t, "llama-3-8b", "2x8 H100 ib=400G", 64, 8192, Software{})
	for _, c := range pipeline.Classes() {
		s := strategy.Strategy{DP: 4, PP: 4, VPP: c.Each(), MicroBatch: 1, Schedule: c.Name}
		want := estimate(t, e, s)
		for _, name := range []string{strings.ToUpper(c.Name), c.Torch} {
			x := s
			x.Schedule = name
			if name == "" {
				continue
			}
			if got := estimate(t, e, x); !reflect.DeepEqual(got, want) || !x.Equal(s) || x.Line() != s.Line() {
				t.Errorf("%s: got %+v, want %+v as of %s", name, got, want, c.Name)
			}
			for chunk := range s.PP * s.VPP {
				if got, want := x.RankOf(chunk), s.RankOf(chunk); got != want {
					t.Errorf("%s: chunk %d is on rank %d, want %d", name, chunk, got, want)
				}
			}
		}
	}
}

// TestLlama405 says that the layout that Llama 3 was trained with comes out near its published 400 TFLOP/s a
// device.
func TestLlama405(t *testing.T) {
	e := estimator(t, "llama-3-405b", "2048x8 H100 ib=400G", 2048, 8192, Software{})
	got := estimate(t, e, strategy.Strategy{DP: 128, TP: 8, PP: 16, VPP: 4, MicroBatch: 1, Sequence: true,
		Zero: 1})
	rate := got.MFU * 989
	if rate < 300 || rate > 460 {
		t.Errorf("%.0f TFLOP/s a device, want about 400: %+v", rate, got.Parts)
	}
}

// TestAlignment says that heads of 108 columns cost what BLOOM's did against heads of 216: 42% of a step.
func TestAlignment(t *testing.T) {
	step := func(heads int) float64 {
		m := gpt("b", 80, 13824, heads, 0)
		w := Workload{Model: m, Batch: 2048, Seq: 2048,
			Software: Software{Unfused: true, Dropout: true, Sync: true, SyncSend: true}}
		c := mustCluster(t, "48x8 A100 ib=50G")
		e, err := NewEstimator(w, c, Default(c, w))
		if err != nil {
			t.Fatal(err)
		}
		return estimate(t, e, strategy.Strategy{DP: 8, TP: 4, PP: 12, MicroBatch: 2, Zero: 1,
			Recompute: strategy.Full,
			Layers:    []int{7, 7, 7, 7, 7, 7, 7, 7, 6, 6, 6, 6}}).Step
	}
	if ratio := step(128) / step(64); ratio < 1.3 || ratio > 1.55 {
		t.Errorf("128 heads take %.2f times as long as 64, want about 1.42", ratio)
	}
}

func BenchmarkEstimateDeep(b *testing.B) {
	e := estimator(b, "llama-3-405b", "2048x8 H100 ib=400G", 4096, 8192, Software{})
	for _, s := range []strategy.Strategy{
		{DP: 32, TP: 8, PP: 64, MicroBatch: 1, Sequence: true, Zero: 1},
		{DP: 128, TP: 8, PP: 16, VPP: 7, MicroBatch: 1, Sequence: true, Zero: 1},
		{DP: 2048, TP: 8, MicroBatch: 2, Sequence: true, Zero: 3},
	} {
		b.Run(s.String(), func(b *testing.B) {
			for b.Loop() {
				if _, err := e.Estimate(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
