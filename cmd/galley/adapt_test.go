package main

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/probe"
	"github.com/galley-ml/galley/models"
)

// watched returns an adapter of a run on two processes, each a replica.
func watched(t *testing.T, steps int, checkpoint string) *adapter {
	t.Helper()
	config, err := models.ParseConfig([]byte(`{"model_type": "llama", "num_hidden_layers": 12, "hidden_size": 64,
		"num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 128, "max_position_embeddings": 64}`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := galley.Strategy{DP: 2}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	run := forecast.Run{Model: config, Batch: 64, Seq: 64, Devices: 2}
	e, err := forecast.Estimate(run, s)
	if err != nil {
		t.Fatal(err)
	}
	c := &trainCmd{Steps: steps, Adapt: "on", Batch: 64, Seq: 64}
	c.Checkpoint = checkpoint
	return &adapter{t: &training{trainCmd: c}, strategy: s, run: run, forecast: e, setup: time.Second,
		slow: []float64{1, 1}, judge: probe.Judge{Work: []float64{1, 1}},
		told: plan.Constants{Compute: 1, Communication: 1}}
}

// printed returns what a function prints.
func printed(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	was := os.Stdout
	os.Stdout = w
	f()
	os.Stdout = was
	w.Close()
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// windows returns those of a process that falls to half speed after the first.
func windows(n int) (list [][]probe.Terms) {
	for i := range n {
		w := []probe.Terms{{Compute: 0.1, Exchange: 0.01, Step: 0.12}, {Compute: 0.1, Exchange: 0.01, Step: 0.12}}
		if i > 0 {
			w[1].Compute, w[0].Exchange, w[0].Step = 0.2, 0.11, 0.22
		}
		list = append(list, w)
	}
	return list
}

// TestAdaptMoves says that a straggler is named within 20 steps, and that the run moves where that pays: not
// for the last steps, and not without a checkpoint to move by.
func TestAdaptMoves(t *testing.T) {
	for _, c := range []struct {
		steps      int
		checkpoint string
		moves      bool
		want       string
	}{
		{1000, "run", true, "moves from dp2 to pp2"},
		{1000, "", false, "--checkpoint DIR"},
		{20, "run", false, "not moved"},
	} {
		a := watched(t, c.steps, c.checkpoint)
		moved, at := false, 0
		text := printed(t, func() {
			for i, w := range windows(4) {
				m, err := a.see((i+1)*windowSteps, w)
				if err != nil {
					t.Error(err)
				}
				if m {
					moved, at = true, (i+1)*windowSteps
					break
				}
			}
		})
		if moved != c.moves || moved && at > windowSteps+20 || a.handOver() != c.moves {
			t.Errorf("%d steps, checkpoint %q: moved %v at step %d", c.steps, c.checkpoint, moved, at)
		}
		for _, want := range []string{"process 1 computes 2.0 times as long", c.want, "predicted"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
}

// TestAdaptGains says that what a move has gained is told beside what was predicted.
func TestAdaptGains(t *testing.T) {
	a := watched(t, 1000, "run")
	a.move = &moved{predicted: 1.5, before: 0.3}
	text := printed(t, func() {
		for i := range 3 {
			if _, err := a.see(i, []probe.Terms{{Compute: 0.1, Step: 0.2}, {Compute: 0.1, Step: 0.2}}); err != nil {
				t.Error(err)
			}
		}
	})
	if strings.Count(text, "1.50 times as fast (200.0 ms, 300.0 ms before): 1.50 was predicted") != 1 {
		t.Errorf("got\n%s", text)
	}
}

// TestAdaptLearns says that the calibration follows what is measured, and that this is told once.
func TestAdaptLearns(t *testing.T) {
	a := watched(t, 1000, "")
	p := &a.forecast.Parts
	w := []probe.Terms{{Compute: 3 * (p.Compute + p.Recompute + p.Optimizer), Exchange: p.Communication(),
		Step: 1}}
	a.slow, a.judge.Work = []float64{1}, []float64{1}
	text := printed(t, func() {
		for i := range 4 {
			if _, err := a.see(i, w); err != nil {
				t.Error(err)
			}
		}
	})
	if n := strings.Count(text, "the calibration follows"); n != 1 {
		t.Errorf("told %d times:\n%s", n, text)
	}
	if a.t.learned == nil {
		t.Fatal("nothing was learned")
	}
	run := a.run
	run.Calibration = a.t.learned.YAML()
	e, err := forecast.Estimate(run, a.strategy)
	if ratio := e.Parts.Compute / p.Compute; err != nil || ratio < 2.9 || ratio > 3.1 {
		t.Errorf("computing is forecast %.2f times as long, %v: want 3", ratio, err)
	}
}

// TestAdaptStraggler says that a process that has become slow does not change what is known of the machine.
func TestAdaptStraggler(t *testing.T) {
	a := watched(t, 1000, "")
	p := &a.forecast.Parts
	computing, exchange := p.Compute+p.Recompute+p.Optimizer, p.Communication()
	text := printed(t, func() {
		for i := range 6 {
			w := []probe.Terms{{Compute: computing, Exchange: exchange}, {Compute: computing, Exchange: exchange}}
			if i > 1 {
				w[1].Compute, w[0].Exchange, w[1].Exchange = 2*computing, computing, 10*exchange
			}
			if _, err := a.see(i, w); err != nil {
				t.Error(err)
			}
		}
	})
	if c := a.constants; min(c.Compute, c.Communication) < 0.99 || max(c.Compute, c.Communication) > 1.01 {
		t.Errorf("learned %+v, want 1 of both", c)
	}
	if strings.Contains(text, "the calibration follows") || !strings.Contains(text, "a straggler") {
		t.Errorf("got\n%s", text)
	}
	if got := a.forecast.Parts.Compute; got < 1.9*computing {
		t.Errorf("computing is forecast to take %g s after a straggler was named, %g s before", got, computing)
	}
}

// TestMoveGoesOn says that a run which moves to another plan continues from where it was, and loses no step.
func TestMoveGoesOn(t *testing.T) {
	dir := t.TempDir()
	text := printed(t, func() {
		c := &trainCmd{Steps: 6, Batch: 4, Seq: 16, LR: 0.003, Layers: 2, Dim: 32, Heads: 4, Seed: 1, Adapt: "off",
			Prompt: "It"}
		c.Held, c.Rows, c.Checkpoint, c.Every, c.Keep = heldFrom, "windows", dir, 100, 2
		c.Programs = 8
		c.Mesh, c.Schedule, c.CP, c.Recompute, c.AMP, c.Offload = "dp=2", "1f1b", "ring", "none", "off", "none"
		d := galley.CPU(galley.Config{Threads: 1})
		defer d.Close()
		x := &training{trainCmd: c, d: d}
		if err := x.prepare(); err != nil {
			t.Error(err)
			return
		}
		c.Steps = 3
		if moves, err := x.trainPlan(); err != nil || moves {
			t.Errorf("moves %v, %v", moves, err)
		}
		c.Steps, c.Changed, x.next = 6, []string{"schedule"}, &galley.Strategy{PP: 2} // of the rate, by the steps
		if _, err := x.trainPlan(); err != nil {
			t.Error(err)
		}
	})
	for _, want := range []string{"step 3/3", "pp2", "step 6/6"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
