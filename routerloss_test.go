package galley_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// routerTrainer trains a mixture whose loss has every term.
func routerTrainer(t *testing.T, s *galley.Strategy, bySequence bool) *galley.Trainer {
	t.Helper()
	d := galley.CPU(galley.Config{Threads: 1})
	t.Cleanup(d.Close)
	m, err := models.New(models.Config{Family: "mixtral", Vocab: 24, Hidden: 8, Intermediate: 12, Layers: 2,
		Heads:   4,
		Experts: 4, ExpertsPerToken: 2, InitStd: 0.3}, nn.Config{Scope: d.NewSession(), Seed: 3, DType: array.F64})
	if err != nil {
		t.Fatal(err)
	}
	model, err := models.WithLoss(m,
		models.LossConfig{LabelSmoothing: 0.1, LogitZ: 0.01, RouterBalance: 0.1, RouterZ: 0.05,
			BySequence: bySequence})
	if err == nil && s != nil {
		model, _, err = galley.Arrange(model, *s, 6)
	}
	if err != nil {
		t.Fatal(err)
	}
	tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params(), Strategy: s,
		Optimizer: optim.AdamW{},
		Schedule:  optim.Constant{LR: 1e-2},
		Loss:      func(b []*op.Tensor) *op.Tensor { return model.Loss(b[0], b[1]) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

// TestRouterLossStrategies: a loss with terms of the routers is the same however a step is spread. The
// balance of a whole batch cannot be cut into micro-batches, which is said.
func TestRouterLossStrategies(t *testing.T) {
	want := optimizerSteps(t, routerTrainer(t, nil, true), 3)
	for _, s := range []galley.Strategy{{DP: 2}, {DP: 2, TP: 2, Zero: 1}, {PP: 2, Micro: 2}, {EP: 2, DP: 2},
		{Micro: 4},
		{CP: 3}} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			sameNumbers(t, optimizerSteps(t, routerTrainer(t, &s, true), 3), want, 1e-9)
		})
	}
	whole := optimizerSteps(t, routerTrainer(t, nil, false), 2)
	sameNumbers(t, optimizerSteps(t, routerTrainer(t, &galley.Strategy{DP: 2, EP: 2}, false), 2), whole, 1e-9)
	tr := routerTrainer(t, &galley.Strategy{Micro: 2}, false)
	ids := array.New(array.I32, 4, 6)
	if _, err := tr.Step(ids, ids); err == nil || !strings.Contains(err.Error(), "micro=1") {
		t.Errorf("a balance over micro-batches: got %v", err)
	}
}
