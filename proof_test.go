package galley_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// trial is a small model in training.
type trial struct {
	*galley.Trainer
	device *galley.Device
	model  models.Model
	vocab  int
	batch  array.Shape
}

// tiny is a model that trains in no time.
var tiny = models.Config{Family: "llama", Vocab: 40, Hidden: 16, Intermediate: 24, Layers: 4, Heads: 4,
	KVHeads: 2, Tied: true, InitStd: 0.2}

// newTrial trains a model by a strategy, on one device if it is nil, with batches of 8 windows of 12 tokens
// and one.
func newTrial(t *testing.T, c models.Config, dtype array.DType, s *galley.Strategy) *trial {
	t.Helper()
	tr, err := tryTrial(t, c, dtype, s, array.Shape{8, 13})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func tryTrial(t *testing.T, c models.Config, dtype array.DType, s *galley.Strategy,
	batch array.Shape) (*trial, error) {
	t.Helper()
	d := galley.CPU(galley.Config{Threads: 1})
	t.Cleanup(d.Close)
	m, err := models.New(c, nn.Config{Scope: d.NewSession(), Seed: 3, DType: dtype})
	if err != nil {
		t.Fatal(err)
	}
	arranged := m
	if s != nil {
		if arranged, _, err = galley.Arrange(m, *s, batch[1]-1); err != nil {
			return nil, err
		}
	}
	tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params(), Strategy: s, ClipNorm: 1,
		Optimizer: optim.AdamW{WeightDecay: 0.1}, Schedule: optim.Cosine{LR: 1e-2, Final: 1e-3, Warmup: 3,
			Steps: 20},
		Loss: func(b []*op.Tensor) *op.Tensor {
			n := b[0].Dim(1)
			return arranged.Loss(op.Narrow(b[0], 1, 0, n-1), op.Narrow(b[0], 1, 1, n))
		}})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return &trial{Trainer: tr, device: d, model: m, vocab: c.Vocab, batch: batch}, nil
}

// windows returns the batch of a step.
func (x *trial) windows(step int) array.Array {
	a := array.New(array.I32, x.batch...)
	ids := array.Data[int32](a)
	for k := range ids {
		ids[k] = int32((k*7 + step*13 + k*k%11) % x.vocab)
	}
	return a
}

// train continues until a number of steps are taken: losses and norms.
func (x *trial) train(t *testing.T, until int) []float64 {
	t.Helper()
	var curve []float64
	for step := x.Steps(); step < until; step++ {
		m, err := x.Step(x.windows(step))
		if err != nil {
			t.Fatal(err)
		}
		curve = append(curve, m.Loss, m.GradNorm)
	}
	return curve
}

// sameCurve compares two curves.
func sameCurve(t *testing.T, got, want []float64, limit float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d numbers, want %d", len(got), len(want))
	}
	for i := range want {
		// gradients that overflow are infinite in both
		if got[i] != want[i] && !(math.Abs(got[i]-want[i]) <= limit) {
			t.Fatalf("number %d differs by %g\n got %v\nwant %v", i, math.Abs(got[i]-want[i]), got, want)
		}
	}
}

// planned returns the plan of a trial's step.
func (x *trial) planned(t *testing.T) *galley.StepPlan {
	t.Helper()
	p, err := x.Plan(galley.Type{DType: array.I32, Shape: x.batch})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func name(s *galley.Strategy) string {
	if s == nil {
		return "alone"
	}
	return fmt.Sprint(*s)
}
