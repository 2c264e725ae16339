package choose_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend/backendtest"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/executor/choose"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// config returns a layer whose bias a product can take over, and an activation that makes loops.
func config(t *testing.T, passes ...string) executor.Config {
	t.Helper()
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	t.Cleanup(d.Close)
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 1})
	w := in.Param("weight", array.Shape{256, 256}, nn.Normal(1))
	b := in.Param("bias", array.Shape{256}, nn.Normal(1))
	return executor.Config{Device: d, Params: in.Params(), Optimizer: optim.AdamW{},
		Strategy: &strategy.Strategy{DP: 1, FusedPasses: passes},
		Loss: func(batch []*op.Tensor) *op.Tensor {
			y := op.Add(op.MatMul(batch[0], w.Value), b.Value)
			return op.Mean(op.Mul(op.Tanh(op.MulScalar(y, 0.5)), y))
		}}
}

// TestFusedPasses: what the strategy names is what the devices' programs show, and the plan reads back.
func TestFusedPasses(t *testing.T) {
	batch := ir.Type{DType: array.F32, Shape: array.Shape{512, 256}}
	for _, c := range []struct {
		passes          []string
		loops, epilogue bool
	}{
		{nil, true, false},
		{[]string{"-loops"}, false, false},
		{[]string{"none"}, false, false},
		{[]string{"fold", "prune", "loops"}, true, false},
		{[]string{"fold", "prune", "gemm_epilogue"}, false, true},
	} {
		p, err := choose.Plan(config(t, c.passes...), batch)
		if err != nil {
			t.Fatal(err)
		}
		text := p.Step.String()
		if got := strings.Contains(text, " = fused{"); got != c.loops {
			t.Errorf("%v: loops: %v, want %v\n%s", c.passes, got, c.loops, text)
		}
		if got := strings.Contains(text, " = linear"); got != c.epilogue {
			t.Errorf("%v: a product with its bias: %v, want %v\n%s", c.passes, got, c.epilogue, text)
		}
		back, err := step.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if back.String() != text {
			t.Errorf("%v: reads back as\n%s\nwant\n%s", c.passes, back, text)
		}
	}
}

// TestFusedPassesRefused: what cannot be had is refused by name.
func TestFusedPassesRefused(t *testing.T) {
	batch := ir.Type{DType: array.F32, Shape: array.Shape{4, 256}}
	for _, c := range []struct {
		passes  []string
		tp      int
		backend bool
		want    string
	}{
		{[]string{"lop"}, 1, false, "did you mean loops?"},
		{[]string{"join"}, 2, false, "want tp=1"},
		{[]string{"loops"}, 1, true, "its compiler makes loops itself"},
		{[]string{"fold", "fold"}, 1, false, "named twice"},
	} {
		x := config(t, c.passes...)
		x.Strategy.TP = c.tp
		if c.backend {
			x.Backend = backendtest.Interpreter(1)
		}
		if _, err := choose.Plan(x, batch); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.passes, err, c.want)
		}
	}
}
