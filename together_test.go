package galley_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/backend/backendtest"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// togetherRun is a training of a small model, on a backend of several devices or on the host.
type togetherRun struct {
	backend  galley.Backend
	strategy *galley.Strategy
	init     *galley.Program
	compute  array.DType
	heads    int
}

const togetherBatch, togetherSeq = 4, 8

func (r togetherRun) trainer(t *testing.T) (*galley.Trainer, models.Model) {
	t.Helper()
	d := galley.CPU(galley.Config{Threads: 1})
	t.Cleanup(d.Close)
	m, err := models.New(r.config(), nn.Config{Scope: d.NewSession(), Seed: 3, DType: array.F64})
	if err != nil {
		t.Fatal(err)
	}
	arranged := m
	if r.strategy != nil {
		if arranged, _, err = r.strategy.Arrange(m, togetherSeq); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params(), Backend: r.backend, Strategy: r.strategy, Init: r.init, Compute: r.compute,
		ClipNorm: 1, Optimizer: optim.AdamW{WeightDecay: 0.1}, Schedule: optim.Constant{LR: 1e-2},
		Loss: func(b []*op.Tensor) *op.Tensor {
			n := b[0].Dim(1)
			return arranged.Loss(op.Narrow(b[0], 1, 0, n-1), op.Narrow(b[0], 1, 1, n))
		}})
	if err != nil {
		t.Fatal(err)
	}
	return tr, m
}

func (r togetherRun) config() models.Config {
	return models.Config{Family: "llama", Vocab: 24, Hidden: 16, Intermediate: 24, Layers: 2, Heads: 4, KVHeads: 2, Tied: true, InitStd: 0.2}
}

func togetherIDs(step int) array.Array {
	ids := array.New(array.I32, togetherBatch, togetherSeq+1)
	for k := range ids.Len() {
		ids.Set(k, float64((k*7+step*13+k*k%11)%24))
	}
	return ids
}

func trainFor(t *testing.T, tr *galley.Trainer, steps int) []float64 {
	t.Helper()
	var out []float64
	for range steps {
		m, err := tr.Step(togetherIDs(tr.Steps()))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m.Loss, m.GradNorm)
	}
	return out
}

func sameNumbers(t *testing.T, got, want []float64, limit float64) {
	t.Helper()
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= limit) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	}
}

// TestTogether: a training step that the devices of a backend run as one program has the losses and norms of one device, however
// it is spread, and the parameters that come back are its own.
func TestTogether(t *testing.T) {
	one, _ := togetherRun{}.trainer(t)
	want := trainFor(t, one, 3)
	for _, s := range []galley.Strategy{
		{DP: 2}, {TP: 2}, {DP: 2, TP: 2}, {DP: 4}, {DP: 2, Zero: 1}, {DP: 2, Zero: 2}, {DP: 2, Zero: 3}, {DP: 2, TP: 2, Zero: 3},
		{TP: 2, Sequence: true}, {DP: 2, TP: 2, Sequence: true, Zero: 1}, {CP: 2, Context: "ulysses"}, {DP: 2, CP: 2, Context: "ulysses", Zero: 2},
		{CP: 2}, {DP: 2, CP: 2, Context: "ring"}, {DP: 2, Recompute: "selective"}, {DP: 2, TP: 2, Zero: 3, Recompute: "full"},
	} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			tr, m := togetherRun{backend: backendtest.Interpreter(4), strategy: &s}.trainer(t)
			sameNumbers(t, trainFor(t, tr, 3), want, 1e-10)
			d := galley.CPU(galley.Config{Threads: 1})
			defer d.Close()
			if err := tr.Sync(d.NewSession()); err != nil {
				t.Fatal(err)
			}
			_ = m
		})
	}
	_ = context.Background
	_ = strings.Contains
}
