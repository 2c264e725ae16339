package galley_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend/backendtest"
	"github.com/galley-ml/galley/internal/golden"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// losses is the numbers that a micro-batch adds to the sums besides gradients.
const losses = 2

// TestDeviceGroupAccumulates: a step that the devices of a backend take in micro-batches, one device or
// several, has the losses, norms and parameters of one device that takes the batch at once, however it is
// spread and cut.
func TestDeviceGroupAccumulates(t *testing.T) {
	one, host := groupRun{}.trainer(t)
	want := trainFor(t, one, 3)
	for _, s := range shortened([]galley.Strategy{
		{Micro: 2}, {Micro: 3}, {Micro: 4}, {Micro: 2, Recompute: "selective"}, {Micro: 2, Recompute: "full"},
		{DP: 2, Micro: 2}, {TP: 2, Micro: 2}, {DP: 2, TP: 2, Micro: 2}, {TP: 2, Sequence: true, Micro: 4},
		{CP: 2, Context: "ulysses", Micro: 2}, {CP: 2, Micro: 2},
		{DP: 2, Zero: 1, Micro: 2}, {DP: 2, Zero: 2, Micro: 2}, {DP: 2, Zero: 3, Micro: 2},
		{DP: 2, TP: 2, Sequence: true, Zero: 2, Micro: 2}, {DP: 2, Zero: 3, Micro: 2, Recompute: "full"},
		{DP: 2, Zero: 1, Micro: 2, Recompute: "selective"},
		{DP: 2, CP: 2, Context: "ulysses", Zero: 2, Micro: 2},
	}) {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			trainsAlike(t, s, want, host)
		})
	}
}

// TestAccumulateHalf: products in bf16 round alike in a micro-batch and in the whole batch, but for
// gradients' sums, which are f32.
func TestAccumulateHalf(t *testing.T) {
	run := func(s galley.Strategy) []float64 {
		tr, _ := groupRun{half: true, backend: backendtest.Interpreter(4), strategy: &s}.trainer(t)
		return trainFor(t, tr, 3)
	}
	want := run(galley.Strategy{AMP: "bf16"})
	for _, s := range shortened([]galley.Strategy{
		{DP: 2, Zero: 1, Micro: 2, AMP: "bf16"}, {Micro: 2, AMP: "bf16"},
		{DP: 2, Zero: 3, Micro: 2, AMP: "bf16", Recompute: "full"},
	}) {
		got := run(s)
		sameNumbers(t, got[:1], want[:1], 1e-5)
		sameNumbers(t, got[:3], want[:3], 2e-3)
	}
}

// TestAccumulateExchanges: without ZeRO 2 gradients are exchanged once a step, those too that are cast to f32
// or cut out of a product of joined weights: a micro-batch combines nothing but its loss and what that is
// divided by.
func TestAccumulateExchanges(t *testing.T) {
	k := &moduleKeeper{Backend: backendtest.Interpreter(4), all: map[string]string{}}
	tr, m := groupRun{half: true, backend: k,
		strategy: &galley.Strategy{DP: 2, Micro: 2, AMP: "bf16"}}.trainer(t)
	trainFor(t, tr, 1)
	for name, want := range map[string]int{"train_part": losses, "train_update": len(m.Params())} {
		if got := strings.Count(k.all[name], `"stablehlo.all_reduce"`); got != want {
			t.Errorf("%s: %d sums over devices: want %d", name, got, want)
		}
	}
}

// linearRun is a training of one weight, the labels of whose batch count in part.
type linearRun struct {
	backend  galley.Backend
	strategy *galley.Strategy
	batch    int
}

func (r linearRun) trainer(t *testing.T) *galley.Trainer {
	t.Helper()
	d := galley.CPU(galley.Config{Threads: 1})
	t.Cleanup(d.Close)
	w := array.New(array.F64, 6, 4)
	for i := range w.Len() {
		w.Set(i, float64(i*5%7)/7)
	}
	p := &nn.Param{Name: "w", Type: op.Type{DType: w.DType(), Shape: w.Shape()},
		Value: d.NewSession().Tensor(w).Track()}
	tr, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Backend: r.backend, Strategy: r.strategy, Params: []*nn.Param{p},
		Optimizer: optim.SGD{Momentum: 0.9}, ClipNorm: 0.3,
		Loss: func(b []*op.Tensor) *op.Tensor {
			return op.CrossEntropy(op.MatMul(b[0], p.Value), b[1], op.CrossEntropyConfig{})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func (r linearRun) losses(t *testing.T, tr *galley.Trainer) (list []float64) {
	t.Helper()
	x, labels := array.New(array.F64, r.batch, 6), array.New(array.I32, r.batch)
	for i := range x.Len() {
		x.Set(i, float64(i*i%11)/3-1)
	}
	for i := range labels.Len() {
		labels.Set(i, float64(i%4))
		if i%3 > 0 && i < r.batch/2 { // the first micro-batches count least
			labels.Set(i, -100)
		}
	}
	for range 3 {
		m, err := tr.Step(x, labels)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m.Loss, m.GradNorm)
	}
	return list
}

// TestAccumulateIgnored: a micro-batch weighs as much as it has labels that count.
func TestAccumulateIgnored(t *testing.T) {
	one := linearRun{batch: 12}
	want := one.losses(t, one.trainer(t))
	for _, s := range []galley.Strategy{{Micro: 2}, {Micro: 5}, {Micro: 12}, {DP: 2, Micro: 3},
		{DP: 2, Zero: 2, Micro: 2}} {
		many := linearRun{backend: backendtest.Interpreter(4), strategy: &s, batch: 12}
		sameNumbers(t, many.losses(t, many.trainer(t)), want, 1e-12)
		host := linearRun{strategy: &s, batch: 12}
		sameNumbers(t, host.losses(t, host.trainer(t)), want, 1e-12)
	}
}

// TestAccumulateGolden: the modules of a step in micro-batches are those in testdata.
func TestAccumulateGolden(t *testing.T) {
	golden.Run(t, "testdata/accumulate/*.txt", func(t *testing.T, b golden.Block) string {
		s, err := strategy.Parse(b.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(strings.Join(b.Args[1:], " "), "zero=%d micro=%d", &s.Zero, &s.Micro); err != nil {
			t.Fatal(err)
		}
		r := linearRun{backend: &moduleKeeper{Backend: backendtest.Interpreter(4), all: map[string]string{}},
			strategy: &s, batch: 4 * s.Micro}
		r.losses(t, r.trainer(t))
		var text strings.Builder
		for _, name := range []string{"train_sums", "train_part", "train_update"} {
			module := r.backend.(*moduleKeeper).all[name]
			parseModule(t, module, nil)
			text.WriteString(module)
		}
		return text.String()
	})
}

// TestAccumulateMemory: micro-batches need less memory than the batch, and the optimizer's slots count.
func TestAccumulateMemory(t *testing.T) {
	peak := func(s galley.Strategy) int {
		d := galley.CPU(galley.Config{Threads: 1})
		defer d.Close()
		tr, m := groupRun{backend: d.Backend(), strategy: &s}.trainer(t)
		trainFor(t, tr, 1)
		state := 0
		for _, p := range m.Params() {
			state += 4 * p.Type.Bytes() // with two slots and the gradient
		}
		if got := tr.Memory().Peak(); got < state {
			t.Errorf("%v: peak is %d bytes: the state alone has %d", s, got, state)
		}
		return tr.Memory().Peak()
	}
	whole, parts := peak(galley.Strategy{}), peak(galley.Strategy{Micro: 4})
	if parts >= whole {
		t.Errorf("four micro-batches need %d bytes, the batch at once %d", parts, whole)
	}
}
