package galley_test

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// grouped trains two layers, of which one may be frozen, for three steps, and returns the trainer and its
// parameters.
func grouped(t *testing.T, o optim.Optimizer, s *galley.Strategy, freeze ...string) (*galley.Trainer,
	[]*nn.Param, float64) {
	t.Helper()
	d := device(t)
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 1, DType: array.F64})
	up, down := nn.NewLinear(in.At("up"), 4, 6), nn.NewLinear(in.At("down"), 6, 2)
	if err := nn.Freeze(in.Params(), freeze...); err != nil {
		t.Fatal(err)
	}
	tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: in.Params(), Optimizer: o, Strategy: s,
		ClipNorm: 1,
		Schedule: optim.Constant{LR: 0.1}, Loss: func(batch []*galley.Tensor) *galley.Tensor {
			return op.MSELoss(down.Forward(op.Tanh(up.Forward(batch[0]))), batch[1], "mean")
		}})
	if err != nil {
		t.Fatal(err)
	}
	x, y := array.New(array.F64, 4, 4), array.New(array.F64, 4, 2)
	for i := range x.Len() {
		x.Set(i, math.Sin(float64(i)))
	}
	norm := 0.0
	for range 3 {
		m, err := tr.Step(x, y)
		if err != nil {
			t.Fatal(err)
		}
		norm = m.GradNorm
	}
	if err := tr.Sync(nil); err != nil {
		t.Fatal(err)
	}
	return tr, in.Params(), norm
}

func parameterValues(t *testing.T, params []*nn.Param) (all []float64) {
	t.Helper()
	for _, p := range params {
		a, err := galley.Read(p.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a.Float64s()...)
	}
	return all
}

// TestParameterGroups trains with groups, frozen layers and averages, on one device and on several.
func TestParameterGroups(t *testing.T) {
	o := optim.Averaged{Decay: 0.5, Optimizer: optim.Groups{Default: optim.AdamW{WeightDecay: 0.5},
		Groups: []optim.Group{{Params: []string{"*.bias"}, Optimizer: optim.AdamW{}, LR: 0.1}}}}
	one, params, norm := grouped(t, o, nil, "up.weight")
	want := parameterValues(t, params)
	averages, err := one.Averaged()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*galley.Strategy{{DP: 2}, {DP: 2, Zero: 3, Micro: 2}} {
		tr, params, got := grouped(t, o, s, "up.weight")
		near(t, "parameters", parameterValues(t, params), want)
		near(t, "norm", []float64{got}, []float64{norm})
		split, err := tr.Averaged()
		if err != nil {
			t.Fatal(err)
		}
		for i := range split {
			near(t, "averages", split[i].Float64s(), averages[i].Float64s())
		}
	}
	_, plain, other := grouped(t, optim.AdamW{WeightDecay: 0.5}, nil)
	if parameterValues(t, plain)[0] == want[0] || other == norm {
		t.Error("the frozen layer trains, or its gradients count")
	}
	first := nn.NewInit(nn.Config{Scope: device(t).NewSession(), Seed: 1, DType: array.F64})
	nn.NewLinear(first.At("up"), 4, 6)
	if parameterValues(t, first.Params())[0] != want[0] {
		t.Error("the frozen layer has changed")
	}
}

func TestParameterGroupsErrors(t *testing.T) {
	d := device(t)
	in := nn.NewInit(nn.Config{Scope: d.NewSession()})
	l := nn.NewLinear(in, 2, 2)
	_, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: in.Params(),
		Loss:      func(batch []*galley.Tensor) *galley.Tensor { return op.Mean(l.Forward(batch[0])) },
		Optimizer: optim.Groups{Default: optim.SGD{}, Groups: []optim.Group{{Params: []string{"norm*"}}}}})
	if err == nil || !strings.Contains(err.Error(), `"norm*" names no parameter`) {
		t.Errorf("got %v", err)
	}
	tr, _, _ := grouped(t, optim.SGD{}, nil)
	if _, err := tr.Averaged(); err == nil || !strings.Contains(err.Error(), "want optim.Averaged") {
		t.Errorf("got %v", err)
	}
}
