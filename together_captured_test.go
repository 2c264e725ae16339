package galley_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend/backendtest"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// capturing returns a trainer of a linear layer whose loss weights classes by a tensor of its own, and how it
// evaluates: the largest of a batch's logits, over the mean of all of them.
func capturing(t *testing.T, c galley.TrainerConfig) (*galley.Trainer, *galley.Forward) {
	t.Helper()
	c.Device = device(t)
	in := nn.NewInit(nn.Config{Scope: c.Device.NewSession(), DType: array.F64, Seed: 1})
	layer := nn.NewLinear(in, 4, 2)
	classes := array.New(array.F64, 2)
	classes.Set(0, 0.25)
	classes.Set(1, 2)
	weights := c.Device.NewSession().Tensor(classes)
	c.Params, c.Optimizer = in.Params(), optim.SGD{}
	c.Loss = func(b []*op.Tensor) *op.Tensor {
		return op.Mean(op.Mul(op.Square(op.Sub(layer.Forward(b[0]), b[1])), weights))
	}
	tr, err := galley.NewTrainer(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	f := tr.NewForward(func(b []*op.Tensor) []*op.Tensor {
		y := op.Mul(layer.Forward(b[0]), weights)
		return []*op.Tensor{op.Div(y, op.AddScalar(op.Mean(b[0]), 1))}
	})
	return tr, f
}

// TestTogetherCaptured: on the devices of a backend, too, a loss may use tensors that are neither parameters
// nor of the batch, and a pass that is cut into micro-batches computes what one that is not does.
func TestTogetherCaptured(t *testing.T) {
	batch := []array.Array{array.New(array.F64, 4, 4), array.New(array.F64, 4, 2)}
	for i := range batch[0].Len() {
		batch[0].Set(i, float64(i%5)-1.5)
	}
	run := func(t *testing.T, c galley.TrainerConfig) (list []float64) {
		tr, f := capturing(t, c)
		for range 2 {
			m, err := tr.Step(batch...)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, m.Loss, m.GradNorm)
		}
		out, err := f.Run(t.Context(), batch...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range out[0].Len() {
			list = append(list, out[0].At(i))
		}
		return list
	}
	want := run(t, galley.TrainerConfig{})
	for _, s := range []galley.Strategy{{DP: 2}, {DP: 2, Zero: 3}, {Micro: 2}, {Micro: 3}, {DP: 2, Micro: 2}} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			got := run(t, galley.TrainerConfig{Backend: backendtest.Interpreter(2), Strategy: &s})
			sameNumbers(t, got, want, 1e-9)
		})
	}
}

// TestDoingOnBackend: what a backend has not answered is told while a step runs, and nothing between steps.
func TestDoingOnBackend(t *testing.T) {
	tr, _ := capturing(t, galley.TrainerConfig{Backend: backendtest.Interpreter(1)})
	batch := []array.Array{array.New(array.F64, 4, 4), array.New(array.F64, 4, 2)}
	p, err := tr.Start(batch...)
	if err != nil {
		t.Fatal(err)
	}
	if got := tr.RunningOps(); len(got) != 1 || !strings.Contains(got[0], "device 0: train_step on ") {
		t.Errorf("while it runs: got %q", got)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := tr.RunningOps(); len(slices.Compact(got)) != 0 {
		t.Errorf("between steps: got %q", got)
	}
}
