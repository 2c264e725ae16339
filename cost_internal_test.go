package galley

import (
	"math"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/executor/tapes"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/strategy"
)

// TestCostIsTrue compares what Cost tells with what a step then takes and sends, and the loss of a step with
// what evaluating its batch told before.
func TestCostIsTrue(t *testing.T) {
	if testing.Short() {
		t.Skip("it prices on one goroutine")
	}
	for _, c := range []struct {
		family string
		s      Strategy
	}{
		{"llama", Strategy{DP: 2}}, {"llama", Strategy{TP: 2}}, {"llama", Strategy{PP: 2, Micro: 4}}, {"llama",
			Strategy{DP: 2, TP: 2, PP: 2, Zero: 1}}, {"llama", Strategy{DP: 2, Zero: 3, Recompute: "full"}}, {"llama",
			Strategy{DP: 2, TP: 2, Zero: 3, Overlap: strategy.On}},
		{"llama", Strategy{DP: 2, AMP: "bf16"}}, {"llama", Strategy{PP: 2, AMP: "f16"}}, {"llama",
			Strategy{DP: 2, Zero: 1, Offload: strategy.Offload{Optimizer: 1}}}, {"llama", Strategy{CP: 2}},
		{"llama", Strategy{CP: 2,
			TP: 2, Context: "ulysses"}},
		{"mixtral", Strategy{DP: 2, EP: 2}}, {"mixtral", Strategy{EP: 2, TP: 2, PP: 2}}, {"gpt2",
			Strategy{TP: 2, PP: 2, Sequence: true}},
	} {
		t.Run(c.family+" "+c.s.String(), func(t *testing.T) { checkCost(t, c.family, &c.s) })
	}
}

func checkCost(t *testing.T, family string, s *Strategy) {
	d := CPU(Config{Threads: 1})
	defer d.Close()
	config := models.Config{Family: family, Vocab: 40, Hidden: 16, Intermediate: 24, Layers: 2, Heads: 4,
		InitStd: 0.2}
	if family == "mixtral" {
		config.Experts, config.ExpertsPerToken = 4, 2
	}
	m, err := models.New(config, nn.Config{Scope: d.NewSession(), Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(EngineConfig{Model: Language(m), Strategy: s})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ids := array.New(array.I32, 8, 12)
	for i := range ids.Len() {
		array.Data[int32](ids)[i] = int32(i * 7 % 40)
	}
	cost, err := e.Cost(ir.TypeOf(ids), ir.TypeOf(ids))
	if err != nil {
		t.Fatal(err)
	}
	told, err := e.Run(t.Context(), Evaluating, ids, ids)
	if err != nil {
		t.Fatal(err)
	}
	step, err := e.Run(t.Context(), Training, ids, ids)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(told.Loss-step.Loss) > 1e-5 {
		t.Errorf("evaluated to %v, trained at %v", told.Loss, step.Loss)
	}
	runner := e.trainer.exec.(*tapes.Executor).Runner()
	for i, x := range cost.Devices {
		if got := runner.Allocated(i); got != x.Memory() {
			t.Errorf("device %d took %d bytes, told %d", i, got, x.Memory())
		}
		if got := float64(runner.World().Stats(i).Total().Sent); math.Abs(got-x.Sent) > 0.02*got {
			t.Errorf("device %d sent %v bytes, told %v", i, got, x.Sent)
		}
	}
}
