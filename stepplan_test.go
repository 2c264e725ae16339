package galley_test

import (
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// TestPlanText: the plans of strategies of all kinds are read back from what they print, and print the same
// again.
func TestPlanText(t *testing.T) {
	t.Parallel()
	for _, s := range []galley.Strategy{
		{}, {DP: 2, TP: 2, PP: 2}, {DP: 2, Zero: 3, Micro: 2}, {DP: 2, TP: 2, Sequence: true, Overlap: strategy.On},
		{PP: 2, Schedule: "zbv", Micro: 4, Zero: 1}, {PP: 2, VPP: 2, Schedule: "interleaved", AMP: "f16"},
		{CP: 2, TP: 2, Recompute: "full:1"}, {DP: 2, EP: 2, AMP: "bf16"},
		{DP: 2, Offload: strategy.Offload{Optimizer: 1}},
		{DP: 3, PP: 3, Micro: 5, Schedule: "zbh1", Recompute: "selective"},
	} {
		t.Run(s.String(), func(t *testing.T) {
			if testing.Short() && s.PP > 2 {
				t.Skip("other numbers of the same")
			}
			p := planStep(t, s)
			text := p.Step.String()
			back, err := step.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if back.String() != text {
				t.Error("printed, read and printed again it is another")
			}
			for d, want := range p.Memory {
				if got := back.Memory(d); got != want {
					t.Errorf("device %d: read back it needs %+v, want %+v", d, got, want)
				}
			}
		})
	}
}

// planStep plans the step of a small model with experts, whose parameters have no values.
func planStep(t *testing.T, s galley.Strategy) *galley.StepPlan {
	t.Helper()
	model, err := models.New(models.Config{Family: "mixtral", Vocab: 16, Hidden: 8, Intermediate: 8, Layers: 4,
		Heads: 2, Positions: 16, Experts: 2, ExpertsPerToken: 1}, nn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	arranged, _, err := galley.Arrange(model, s, 8)
	if err != nil {
		t.Fatal(err)
	}
	p, err := galley.PlanStep(galley.TrainerConfig{Params: model.Params(), Strategy: &s, ClipNorm: 1,
		Loss: func(batch []*op.Tensor) *op.Tensor { return arranged.Loss(batch[0], batch[1]) },
	}, galley.Type{DType: array.I32, Shape: array.Shape{10, 8}},
		galley.Type{DType: array.I32, Shape: array.Shape{10, 8}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
