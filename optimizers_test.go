package galley_test

import (
	"fmt"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// optimizerTrainer trains a small model with an optimizer.
func optimizerTrainer(t *testing.T, o optim.Optimizer, s *galley.Strategy) *galley.Trainer {
	t.Helper()
	d := galley.CPU(galley.Config{Threads: 1})
	t.Cleanup(d.Close)
	m, err := models.New(models.Config{Family: "mixtral", Vocab: 24, Hidden: 8, Intermediate: 12, Layers: 2,
		Heads:   4,
		Experts: 3, ExpertsPerToken: 2, InitStd: 0.2}, nn.Config{Scope: d.NewSession(), Seed: 3, DType: array.F64})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params(), Strategy: s, ClipNorm: 1,
		Optimizer: o, Schedule: optim.Constant{LR: 1e-2},
		Loss: func(b []*op.Tensor) *op.Tensor { return m.Loss(b[0], b[1]) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

func optimizerSteps(t *testing.T, tr *galley.Trainer, steps int) (losses []float64) {
	t.Helper()
	for range steps {
		ids, labels := array.New(array.I32, 4, 6), array.New(array.I32, 4, 6)
		for k := range 24 {
			array.Data[int32](ids)[k] = int32((k*7 + tr.Steps()*5) % 24)
			array.Data[int32](labels)[k] = int32((k*11 + tr.Steps()) % 24)
		}
		r, err := tr.Step(ids, labels)
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, r.Loss, r.GradNorm)
	}
	return losses
}

// TestOptimizerStrategies: optimizers that look at whole matrices, or remember less than one, have the same
// losses where devices share the matrices, and their memory is kept and read again on other devices.
func TestOptimizerStrategies(t *testing.T) {
	for name, o := range map[string]optim.Optimizer{"adafactor": optim.Adafactor{}, "muon": optim.Muon{},
		"groups": optim.Averaged{Optimizer: optim.Groups{Default: optim.Muon{},
			Groups: []optim.Group{{Params: []string{"*norm*"}, Optimizer: optim.Adafactor{}}}}}} {
		want := optimizerSteps(t, optimizerTrainer(t, o, nil), 5)
		for _, s := range []galley.Strategy{{DP: 2, Zero: 1}, {DP: 2, TP: 2}, {PP: 2, Micro: 2}, {DP: 2, Zero: 3},
			{EP: 3, DP: 3}} {
			if testing.Short() && s.TP < 2 && s.PP < 2 {
				continue
			}
			t.Run(fmt.Sprint(name, s), func(t *testing.T) {
				first := optimizerTrainer(t, o, &s)
				got := optimizerSteps(t, first, 3)
				dir := t.TempDir()
				saveAt(t, first, dir)
				other := optimizerTrainer(t, o, &galley.Strategy{TP: 2})
				if _, err := other.ResumeFrom(dir, galley.ResumeConfig{}); err != nil {
					t.Fatal(err)
				}
				sameNumbers(t, append(got, optimizerSteps(t, other, 2)...), want, 1e-9)
			})
		}
	}
}

func saveAt(t *testing.T, tr *galley.Trainer, dir string) {
	t.Helper()
	c, err := galley.OpenCheckpoints(galley.CheckpointConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Save(t.Context(), c, 0); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
