package galley_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// twoLayers returns a model of your own: two linear layers, of which the second has a name and a width to
// choose.
func twoLayers(d *galley.Device, seed uint64, second string, width int) (galley.Model, []*nn.Param) {
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: seed})
	a, b := nn.NewLinear(in.At("body"), 4, 6), nn.NewLinear(in.At(second), 6, width)
	return galley.ModelFunc(in.Params(), func(x []*galley.Tensor) []*galley.Tensor {
		return []*galley.Tensor{b.Forward(op.Tanh(a.Forward(x[0])))}
	}), in.Params()
}

// TestState: the parameters of any model, trained on many devices, go to safetensors and come back.
func TestState(t *testing.T) {
	d := device(t)
	model, params := twoLayers(d, 1, "head", 2)
	e, err := galley.NewEngine(galley.EngineConfig{Model: model, Loss: galley.MeanSquares,
		Optimizer: optim.AdamW{},
		Strategy:  &galley.Strategy{DP: 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	batch := []array.Array{array.New(array.F32, 4, 4), array.New(array.F32, 4, 2)}
	if _, err := e.Run(t.Context(), galley.Training, batch...); err != nil {
		t.Fatal(err)
	}
	want := weightsOf(t, params)
	for _, path := range []string{filepath.Join(t.TempDir(), "w.safetensors"), filepath.Join(t.TempDir(),
		"dir")} {
		if err := galley.SaveState(path, params, galley.StateConfig{ShardBytes: 60}); err != nil {
			t.Fatal(err)
		}
		_, back := twoLayers(d, 2, "head", 2)
		r, err := galley.LoadState(d.NewSession(), path, back, galley.StateConfig{})
		if err != nil || len(r.Missing)+len(r.Unexpected) > 0 {
			t.Fatal(r, err)
		}
		if got := weightsOf(t, back); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
}

// TestLoadPartly: a body with another head; what is missing and what is left over is told, and refused unless
// it is wanted.
func TestLoadPartly(t *testing.T) {
	d, path := device(t), filepath.Join(t.TempDir(), "w.safetensors")
	_, old := twoLayers(d, 1, "head", 2)
	prefixed := galley.StateConfig{Rename: func(name string) string { return "base." + name }}
	if err := galley.SaveState(path, old, prefixed); err != nil {
		t.Fatal(err)
	}
	_, params := twoLayers(d, 2, "classifier", 3)
	first := weightsOf(t, params[2:])
	for want, c := range map[string]galley.StateConfig{
		`"body.weight" and 3 more are missing`:       {},
		`"classifier.weight" and 1 more are missing`: prefixed,
		`none of 4 parameters is in it`:              {Partly: true},
		`tensor "base.head.weight": got shape [2,6]`: {Rename: func(n string) string {
			return "base." +
				strings.Replace(n, "classifier", "head", 1)
		}},
		`are both called "x"`: {Rename: func(string) string { return "x" }},
	} {
		before := weightsOf(t, params)
		if _, err := galley.LoadState(d.NewSession(), path, params, c); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if !slices.Equal(before, weightsOf(t, params)) {
			t.Errorf("%s: parameters have changed", want)
		}
	}
	prefixed.Partly = true
	r, err := galley.LoadState(d.NewSession(), path, params, prefixed)
	if err != nil || !slices.Equal(r.Missing, []string{"classifier.weight", "classifier.bias"}) ||
		len(r.Unexpected) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if !slices.Equal(weightsOf(t, params[:2]), weightsOf(t, old[:2])) || !slices.Equal(weightsOf(t,
		params[2:]), first) {
		t.Error("the body is not loaded, or the head is")
	}
}

// TestLoadWhileTraining: values that are loaded between steps are those that training continues from,
// wherever it keeps them: in the next step, in an evaluation and in what is saved.
func TestLoadWhileTraining(t *testing.T) {
	var want []float64
	for _, c := range []struct {
		name     string
		strategy *galley.Strategy
		backend  bool
	}{{"one device", nil, false}, {"dp2", &galley.Strategy{DP: 2, Zero: 3}, false},
		{"bf16", &galley.Strategy{DP: 2, AMP: "bf16"}, false}, {"backend", nil, true}} {
		t.Run(c.name, func(t *testing.T) {
			d, path := device(t), filepath.Join(t.TempDir(), "w.safetensors")
			_, other := twoLayers(d, 2, "head", 2)
			if err := galley.SaveState(path, other, galley.StateConfig{}); err != nil {
				t.Fatal(err)
			}
			model, params := twoLayers(d, 1, "head", 2)
			tc := galley.TrainerConfig{Device: d, Params: params, Strategy: c.strategy, Optimizer: optim.SGD{},
				Loss: func(b []*galley.Tensor) *galley.Tensor { return galley.MeanSquares(model.Forward(b[0]), b[1:]) }}
			if c.backend {
				tc.Backend = d.Backend()
			}
			tr, err := galley.NewTrainer(tc)
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			load := func() {
				if _, err := galley.LoadState(d.NewSession(), path, params, galley.StateConfig{}); err != nil {
					t.Fatal(err)
				}
			}
			batch := []array.Array{array.New(array.F32, 4, 4), array.New(array.F32, 4, 2)}
			batch[0].Set(3, 1)
			step := func() {
				if _, err := tr.Step(batch...); err != nil {
					t.Fatal(err)
				}
			}
			load() // before the first step
			step()
			once := weightsOf(t, params)
			step()
			load()
			if err := tr.Sync(nil); err != nil || !slices.Equal(weightsOf(t, params), weightsOf(t, other)) {
				t.Errorf("loaded values are gone: %v", err)
			}
			load()
			step()
			got := weightsOf(t, params)
			if !slices.Equal(got, once) {
				t.Errorf("a step from loaded values: got %v, want %v", got, once)
			}
			if want == nil {
				want = got
			} else if c.name != "bf16" && !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}
