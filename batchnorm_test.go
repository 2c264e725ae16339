package galley_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend/backendtest"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// normed returns a layer, batch normalisation and another layer, and the normalisation by itself.
func normed(d *galley.Device, seed uint64) (galley.Model, []*nn.Param, *nn.BatchNorm) {
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), DType: array.F64, Seed: seed})
	a, norm := nn.NewLinear(in.At("a"), 3, 4), nn.NewBatchNorm(in.At("norm"), 4, nn.BatchNormConfig{})
	b := nn.NewLinear(in.At("b"), 4, 2)
	return galley.ModelFunc(in.Params(), func(x []*galley.Tensor) []*galley.Tensor {
		return []*galley.Tensor{b.Forward(op.Tanh(norm.Forward(a.Forward(x[0]))))}
	}), in.Params(), norm
}

func normedBatch(step int) []array.Array {
	batch := []array.Array{array.New(array.F64, 4, 3), array.New(array.F64, 4, 2)}
	for k, a := range batch {
		for i := range a.Len() {
			a.Set(i, float64((step*13+i*7+k*5)%11)/5-1)
		}
	}
	return batch
}

// normedTrainer trains a fresh model.
func normedTrainer(t *testing.T, c galley.TrainerConfig) (*galley.Trainer, []*nn.Param) {
	t.Helper()
	c.Device = device(t)
	model, params, _ := normed(c.Device, 1)
	c.Params, c.Optimizer = params, optim.AdamW{}
	c.Loss = func(b []*op.Tensor) *op.Tensor { return galley.MeanSquares(model.Forward(b[0]), b[1:]) }
	tr, err := galley.NewTrainer(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr, params
}

// trainNormed takes steps and returns losses, norms and all tensors after them, and an evaluation's loss.
func trainNormed(t *testing.T, tr *galley.Trainer, params []*nn.Param, steps int) (list []float64) {
	t.Helper()
	for range steps {
		m, err := tr.Step(normedBatch(tr.Steps())...)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m.Loss, m.GradNorm)
	}
	e := tr.NewEvaluator()
	loss, err := e.Mean(t.Context(), func(i int) []array.Array {
		if i > 0 {
			return nil
		}
		return normedBatch(7)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return append(append(list, loss), weightsOf(t, params)...)
}

// TestBuffers: a step changes buffers alike whatever takes it, evaluation uses them, and a backend's devices
// have them, too; with micro-batches each of those is normalised by itself.
func TestBuffers(t *testing.T) {
	for micro, configs := range map[int]map[string]galley.TrainerConfig{
		1: {
			"eager": {Mode: galley.Eager}, "dp2": {Strategy: &galley.Strategy{DP: 2, Zero: 3}},
			"backend":      {Backend: backendtest.Interpreter(1)},
			"backend, dp2": {Backend: backendtest.Interpreter(2), Strategy: &galley.Strategy{DP: 2, Zero: 2}},
			"backend, dp2 bar": {Backend: backendtest.Interpreter(2),
				Strategy: &galley.Strategy{DP: 2, Recompute: "full"}},
		},
		2: {
			"dp2":     {Strategy: &galley.Strategy{DP: 2, Micro: 2}},
			"backend": {Backend: backendtest.Interpreter(1), Strategy: &galley.Strategy{Micro: 2}},
			"backend, dp2": {Backend: backendtest.Interpreter(2),
				Strategy: &galley.Strategy{DP: 2, Micro: 2, Zero: 1}},
		},
	} {
		one := galley.TrainerConfig{}
		if micro > 1 {
			one.Strategy = &galley.Strategy{Micro: micro}
		}
		tr, params := normedTrainer(t, one)
		want := trainNormed(t, tr, params, 3)
		for name, c := range configs {
			t.Run(name, func(t *testing.T) {
				tr, params := normedTrainer(t, c)
				sameNumbers(t, trainNormed(t, tr, params, 3), want, 1e-9)
			})
		}
	}
}

// TestBuffersKept: checkpoints hold buffers, whatever wrote and whatever reads them, and so does SaveState.
func TestBuffersKept(t *testing.T) {
	tr, params := normedTrainer(t, galley.TrainerConfig{})
	want := trainNormed(t, tr, params, 4)[4:]
	path := t.TempDir()
	dir, err := galley.OpenCheckpoints(galley.CheckpointConfig{Dir: path})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	first, params := normedTrainer(t, galley.TrainerConfig{Strategy: &galley.Strategy{DP: 2, Zero: 3}})
	trainNormed(t, first, params, 2)
	if err := first.Save(t.Context(), dir, 0); err != nil {
		t.Fatal(err)
	}
	if err := dir.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, params := normedTrainer(t, galley.TrainerConfig{})
	if _, err := second.Resume(path); err != nil {
		t.Fatal(err)
	}
	sameNumbers(t, trainNormed(t, second, params, 2), want, 1e-9)

	path = filepath.Join(t.TempDir(), "w.safetensors")
	if err := galley.SaveState(path, params, galley.StateConfig{}); err != nil {
		t.Fatal(err)
	}
	d := device(t)
	_, back, norm := normed(d, 2)
	if _, err := galley.LoadState(d.NewSession(), path, back, galley.StateConfig{}); err != nil {
		t.Fatal(err)
	}
	sameNumbers(t, weightsOf(t, back), weightsOf(t, params), 0)
	if n := weightsOf(t, []*nn.Param{norm.Count}); n[0] != 4 {
		t.Errorf("%v steps are counted, want 4", n)
	}
}

type normedLoader struct{}

func (normedLoader) Len() int                           { return 2 }
func (normedLoader) Batch(i int) ([]array.Array, error) { return normedBatch(i), nil }

// TestBuffersFit: an engine's fit keeps running statistics, its evaluation uses them, and freezing holds
// them.
func TestBuffersFit(t *testing.T) {
	d := device(t)
	model, params, norm := normed(d, 1)
	if err := nn.Freeze(params, "norm.running_var"); err != nil {
		t.Fatal(err)
	}
	e, err := galley.NewEngine(galley.EngineConfig{Model: model, Loss: galley.MeanSquares,
		Strategy: &galley.Strategy{DP: 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Fit(t.Context(), normedLoader{}, galley.FitConfig{Steps: 4}); err != nil {
		t.Fatal(err)
	}
	got := weightsOf(t, []*nn.Param{norm.Count, norm.Var, norm.Mean})
	if got[0] != 4 || got[1] != 1 || got[5] == 0 {
		t.Errorf("steps, variances, means: got %v", got)
	}
	sum := nn.Summary(params)
	if !strings.Contains(sum, "buffers") {
		t.Errorf("buffers are counted as parameters:\n%s", sum)
	}
}

// TestBuffersPrecise: where products compute in 16 bits running statistics are kept as precisely as without.
func TestBuffersPrecise(t *testing.T) {
	tr, params := normedTrainer(t, galley.TrainerConfig{})
	want := trainNormed(t, tr, params, 3)
	for _, c := range []galley.TrainerConfig{{Compute: array.BF16}, {Compute: array.BF16, Mode: galley.Eager},
		{Compute: array.BF16, Backend: backendtest.Interpreter(1)},
		{Strategy: &galley.Strategy{AMP: "bf16"}, Backend: backendtest.Interpreter(1)},
		{Strategy: &galley.Strategy{AMP: "f16", DP: 2}}} {
		tr, params := normedTrainer(t, c)
		sameNumbers(t, trainNormed(t, tr, params, 3), want, 0.05)
	}
}
