package galley_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/backend/backendtest"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// textKeeper is a backend that remembers the programs that it was given.
type textKeeper struct {
	backend.Backend
	texts map[string]bool
}

func (k *textKeeper) Compile(f *ir.Func, o backend.Options) (backend.Executable, error) {
	k.texts[f.String()] = true
	return k.Backend.Compile(f, o)
}

func (k *textKeeper) Devices() []backend.Backend { return k.Backend.(backend.Group).Devices() }

func (k *textKeeper) CompileSPMD(fs []*ir.Func, o backend.Options) (backend.Executable, error) {
	for _, f := range fs {
		k.texts[f.String()] = true
	}
	return k.Backend.(backend.Group).CompileSPMD(fs, o)
}

// TestPlanOfWholePrograms: the plan of a step on one device, or on a backend, is what then runs. It prints,
// parses and needs no values.
func TestPlanOfWholePrograms(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		devices int // of a backend; 0 is none
		c       galley.TrainerConfig
		want    []string
	}{
		"one device":       {0, galley.TrainerConfig{}, []string{"plan train whole", "  step run 0"}},
		"one device, bf16": {0, galley.TrainerConfig{Compute: array.BF16}, []string{"  step run 0"}},
		"backend":          {1, galley.TrainerConfig{}, []string{"  step run 0", "gate_proj.weight+"}},
		"backend, bf16": {1, galley.TrainerConfig{Compute: array.BF16},
			[]string{".lower\" i16", ".upper\" bf16"}},
		"backend, micro": {1, galley.TrainerConfig{Strategy: &galley.Strategy{Micro: 3}},
			[]string{"  begin run", "  0F2 run", "  update run", "variants 0 1 1"}},
		"backend, tp": {2, galley.TrainerConfig{Strategy: &galley.Strategy{TP: 2}},
			[]string{"tape 1", "exchange all_reduce"}},
		"backend, dp, zero": {2, galley.TrainerConfig{Strategy: &galley.Strategy{DP: 2, Zero: 3}},
			[]string{"tape 1", "load", "exchange reduce_scatter"}},
		"backend, dp, micro": {2, galley.TrainerConfig{Strategy: &galley.Strategy{DP: 2, Zero: 2, Micro: 2}},
			[]string{"  0F1 run", "  update run", "tape 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, keeper := test.c, &textKeeper{texts: map[string]bool{}}
			if test.devices > 0 {
				keeper.Backend = backendtest.Interpreter(test.devices)
				c.Backend = keeper
			}
			wholePlan(t, c, keeper, test.want)
		})
	}
}

func wholePlan(t *testing.T, c galley.TrainerConfig, keeper *textKeeper, want []string) {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	model, err := models.New(models.Config{Family: "llama", Vocab: 16, Hidden: 16, Intermediate: 8, Layers: 2,
		Heads: 2, KVHeads: 2, Positions: 16, InitStd: 0.2}, nn.Config{Scope: d.NewSession(), Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	c.Device, c.Params, c.ClipNorm = d, model.Params(), 1
	c.Loss = func(batch []*op.Tensor) *op.Tensor { return model.Loss(batch[0], batch[0]) }
	batch := array.New(array.I32, 4, 8)
	bare, err := galley.PlanStep(c, op.Type{DType: array.I32, Shape: array.Shape{4, 8}})
	if err != nil {
		t.Fatal(err)
	}
	trainer, err := galley.NewTrainer(c)
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Close()
	plan, err := trainer.Plan(op.Type{DType: array.I32, Shape: array.Shape{4, 8}})
	if err != nil {
		t.Fatal(err)
	}
	text := plan.Step.String()
	if text != bare.Step.String() {
		t.Error("planned without values it is another")
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the plan does not say %q", w)
		}
	}
	back, err := step.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if back.String() != text || back.Memory(0) != plan.Memory[0] {
		t.Errorf(
			"printed, read and printed again it is another: memory %v, want %v",
			back.Memory(0),
			plan.Memory[0],
		)
	}
	if _, err := trainer.Step(batch); err != nil {
		t.Fatal(err)
	}
	for _, p := range plan.Step.Programs() {
		if c.Backend != nil && !keeper.texts[p.String()] {
			t.Errorf("%s is planned and never compiled", p.Name())
		}
	}
	if got := trainer.Memory().Peak(); c.Backend == nil && got != plan.Memory[0].Peak() {
		t.Errorf("the step takes %d bytes, planned were %d", got, plan.Memory[0].Peak())
	}
	again, err := trainer.Plan(op.Type{DType: array.I32, Shape: array.Shape{4, 8}})
	if err != nil || again.Step.String() != text {
		t.Errorf("planned after a step it is another: %v", err)
	}
	if list := plan.Step.Exchanges(0); len(plan.Memory) > 1 && !slices.ContainsFunc(list,
		func(c spmd.Communication) bool { return c.Count > 0 }) {
		t.Error("devices exchange nothing")
	}
}
