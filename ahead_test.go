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

// TestAheadStrategies: a model that also predicts the token behind the next has the same losses however a
// step is spread; its layer is on the last stage, where the table of tokens is needed, too.
func TestAheadStrategies(t *testing.T) {
	losses := func(s *galley.Strategy) []float64 {
		d := galley.CPU(galley.Config{Threads: 1})
		defer d.Close()
		m, err := models.LoadAhead("models/testdata/deepseek_mtp", 1,
			nn.Config{Scope: d.NewSession(), DType: array.F64})
		if err != nil {
			t.Fatal(err)
		}
		own, err := models.WithLoss(m, models.LossConfig{Ahead: 0.3})
		if err == nil && s != nil {
			own, _, err = galley.Arrange(own, *s, 6)
		}
		if err != nil {
			t.Fatal(err)
		}
		tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params(), Strategy: s,
			Optimizer: optim.AdamW{},
			Schedule:  optim.Constant{LR: 1e-2},
			Loss:      func(b []*op.Tensor) *op.Tensor { return own.Loss(b[0], b[1]) }})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		return optimizerSteps(t, tr, 3)
	}
	want := losses(nil)
	for _, s := range []galley.Strategy{{DP: 2, TP: 2}, {PP: 2, Micro: 2}, {DP: 2, Zero: 3}, {DP: 2, EP: 2}} {
		t.Run(fmt.Sprint(s), func(t *testing.T) { sameNumbers(t, losses(&s), want, 1e-9) })
	}
}
