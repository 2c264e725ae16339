package random

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// Model is what a user writes: parameters and a loss.
type Model struct {
	// Params is the parameters that are trained; the loss may use others, which are frozen.
	Params []*nn.Param
	Loss   func(batch []*op.Tensor) *op.Tensor
}

// Build makes a model in a scope.
type Build func(s op.Scope) (Model, error)

// Run is the result of a training run.
type Run struct {
	Losses, Norms []float64
	// Params is the trained parameters after the last step.
	Params []array.Array
}

// Train takes a step of AdamW on each batch, under a strategy or on one device.
func Train(build Build, s *galley.Strategy, batches [][]array.Array) (r Run, err error) {
	return train(build, s, batches, nil)
}

// train is like Train with parameters in annotated layouts.
func train(build Build, s *galley.Strategy, batches [][]array.Array, annotations []galley.Annotation) (r Run,
	err error) {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	m, err := build(d.NewSession())
	if err != nil {
		return r, err
	}
	t, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params, Loss: m.Loss, Strategy: s,
		Annotations: annotations,
		Optimizer:   optim.AdamW{WeightDecay: 0.1, Eps: 1e-3}, Schedule: optim.Constant{LR: 1e-2}})
	if err != nil {
		return r, err
	}
	defer t.Close()
	for _, batch := range batches {
		x, err := t.Step(batch...)
		if err != nil {
			return r, err
		}
		r.Losses, r.Norms = append(r.Losses, x.Loss), append(r.Norms, x.GradNorm)
	}
	if err := t.Sync(d.NewSession()); err != nil {
		return r, err
	}
	for _, p := range m.Params {
		a, err := cpu.Read(p.Value)
		if err != nil {
			return r, err
		}
		r.Params = append(r.Params, a)
	}
	return r, nil
}

// Compare returns an error if two runs differ by more than a limit,
// relatively.
func (r Run) Compare(want Run, limit float64) error {
	for i := range want.Losses {
		if e := off(r.Losses[i], want.Losses[i]); !(e <= limit) {
			return fmt.Errorf("loss of step %d: got %v, want %v", i, r.Losses[i], want.Losses[i])
		}
		if e := off(r.Norms[i], want.Norms[i]); !(e <= limit) {
			return fmt.Errorf("gradient norm of step %d: got %v, want %v", i, r.Norms[i], want.Norms[i])
		}
	}
	for i, w := range want.Params {
		for k := range w.Len() {
			if e := off(r.Params[i].At(k), w.At(k)); !(e <= limit) {
				return fmt.Errorf("parameter %d, element %d of %v: got %v, want %v", i, k, w.Shape(), r.Params[i].At(k),
					w.At(k))
			}
		}
	}
	return nil
}

// off returns how far a number is from another, relative to it where it is large.
func off(got, want float64) float64 { return math.Abs(got-want) / max(1, math.Abs(want)) }
