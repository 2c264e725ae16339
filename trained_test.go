package galley_test

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// savedWeights returns all parameters of a model as models.Save writes them.
func savedWeights(t *testing.T, m models.Model) []float64 {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := models.Save(dir, m, models.SaveConfig{}); err != nil {
		t.Fatal(err)
	}
	back, err := models.Load(dir, nn.Config{Scope: device(t).NewSession(), DType: array.F64})
	if err != nil {
		t.Fatal(err)
	}
	return weightsOf(t, back.Params())
}

func weightsOf(t *testing.T, params []*nn.Param) []float64 {
	t.Helper()
	var all []float64
	for _, p := range params {
		a, err := galley.Read(p.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a.Float64s()...)
	}
	return all
}

// trainedCases is where parameters can be.
var trainedCases = []struct {
	name    string
	s       *galley.Strategy
	backend bool
}{
	{"one device", nil, false}, {"backend", nil, true}, {"backend in parts", &galley.Strategy{Micro: 2}, true},
	{"dp tp pp", &galley.Strategy{DP: 2, TP: 2, PP: 2, Micro: 4}, false}, {"zero 3", &galley.Strategy{DP: 3,
		Micro: 2, Zero: 3}, false},
	{"empty", &galley.Strategy{}, false}, {"offload", &galley.Strategy{DP: 2, Zero: 1,
		Offload: strategy.Offload{Optimizer: 1}}, false},
	{"amp", &galley.Strategy{DP: 2, AMP: "bf16"}, false},
}

// TestSaveTrained: after a fit, a step, an evaluation, a load and a close a model's parameters are those that
// training gave them.
func TestSaveTrained(t *testing.T) {
	var want [][]float64
	for _, x := range trainedCases {
		t.Run(x.name, func(t *testing.T) {
			d := device(t)
			m := smallModel(t, d)
			c := galley.EngineConfig{Model: galley.Language(m), Optimizer: adamW(), Strategy: x.s}
			if x.backend {
				c.Backend = d.Backend()
			}
			e, err := galley.NewEngine(c)
			if err != nil {
				t.Fatal(err)
			}
			var got [][]float64
			look := func() { got = append(got, savedWeights(t, m)) }
			look()
			dir := t.TempDir()
			if _, err := e.Fit(t.Context(), windows(t), galley.FitConfig{Steps: 2, SaveDir: dir}); err != nil {
				t.Fatal(err)
			}
			look()
			if _, err := e.Run(t.Context(), galley.Training, batchOf(t, windows(t), 2)...); err != nil {
				t.Fatal(err)
			}
			look()
			if _, err := e.Evaluate(t.Context(), windows(t), 1); err != nil {
				t.Fatal(err)
			}
			look()
			if _, err := e.Load(dir); err != nil {
				t.Fatal(err)
			}
			look()
			if _, err := e.Run(t.Context(), galley.Training, batchOf(t, windows(t), 2)...); err != nil {
				t.Fatal(err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			look()
			if want == nil {
				want = got
			}
			for i := range got {
				for k := range got[i] {
					if x.s != nil && x.s.AMP != "" {
						break // its numbers are others
					}
					if math.Abs(got[i][k]-want[i][k]) > 1e-5 {
						t.Fatalf("look %d: number %d is %v, want %v", i, k, got[i][k], want[i][k])
					}
				}
			}
			if slices.Equal(got[0], got[1]) || slices.Equal(got[1], got[2]) || !slices.Equal(got[1], got[4]) {
				t.Error("steps do not change what is saved, or a checkpoint is not what was")
			}
		})
	}
}

// TestValueOfAnEarlierStep: a value that was kept over a step, unread, is refused and not that of another
// step.
func TestValueOfAnEarlierStep(t *testing.T) {
	x := newTrial(t, tiny, array.F64, &galley.Strategy{DP: 2})
	x.train(t, 1)
	kept, read := x.model.Params()[0].Value, x.model.Params()[1].Value
	first, err := galley.Read(read)
	if err != nil {
		t.Fatal(err)
	}
	x.train(t, 2)
	if _, err := galley.Read(kept); err == nil || !strings.Contains(err.Error(), "after 1 steps is gone") {
		t.Errorf("got %v", err)
	}
	if again, err := galley.Read(read); err != nil || !slices.Equal(again.Float64s(), first.Float64s()) {
		t.Errorf("what was read has changed: %v", err)
	}
	if err := errors.Join(x.Close(), x.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Step(x.windows(2)); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a closed trainer steps: %v", err)
	}
}

// TestFailedStep: a step that fails before its update leaves the parameters as they were; whether or not it
// did, what cannot be trusted is refused.
func TestFailedStep(t *testing.T) {
	d := device(t)
	m := smallModel(t, d)
	tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params(),
		Strategy: &galley.Strategy{DP: 2},
		Loss:     func(b []*op.Tensor) *op.Tensor { return m.Loss(b[0], b[0]) }})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	ids := array.New(array.I32, 4, 8)
	if _, err := tr.Step(ids); err != nil {
		t.Fatal(err)
	}
	bad := array.New(array.I32, 4, 8)
	for i := range bad.Len() {
		array.Data[int32](bad)[i] = 1 << 20
	}
	if _, err := tr.Step(bad); err == nil {
		t.Fatal("an index out of range trains")
	}
	for _, p := range m.Params() {
		a, err := galley.Read(p.Value)
		if err == nil && slices.ContainsFunc(a.Float64s(), math.IsNaN) {
			err = fmt.Errorf("it has NaN")
		}
		if err != nil && !strings.Contains(err.Error(), "they are lost") {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}
