package choose_test

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/executor/choose"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/internal/transport"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// twoBranches returns layers of two products each that do not depend on each other, wide enough to be worth
// two devices.
func twoBranches(t *testing.T, s *strategy.Strategy) executor.Config {
	t.Helper()
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	t.Cleanup(d.Close)
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 1, DType: array.F64})
	var left, right []*nn.Linear
	for i := range 3 {
		at := in.At("layers").Index(i)
		left = append(left, nn.NewLinear(at.At("left"), 96, 96))
		right = append(right, nn.NewLinear(at.At("right"), 96, 96))
	}
	host := plan.UsualHost(2) // whatever the machine at hand is
	prices := step.PricesOf(step.Machine{Prices: host, Latency: host.Idle}, 1)
	return executor.Config{
		Prices:    &prices,
		Device:    d,
		Params:    in.Params(),
		Optimizer: optim.AdamW{},
		World:     transport.New,
		Strategy:  s,
		ClipNorm:  1,
		Loss: func(batch []*op.Tensor) *op.Tensor {
			x := batch[0]
			for i := range left {
				x = op.Add(x, op.Add(op.Tanh(left[i].Forward(x)), op.Square(right[i].Forward(x))))
			}
			return op.Mean(op.Square(x))
		},
	}
}

// take takes steps from one on and is their losses and norms.
func take(t *testing.T, e executor.Executor, from, to int) (list []float64) {
	t.Helper()
	x := array.New(array.F64, 64, 96)
	for i := range x.Len() {
		x.Set(i, 0.1*math.Sin(float64(i)))
	}
	for n := from; n <= to; n++ {
		r, err := e.Step(executor.Input{LR: 0.01, Count: float64(n), Batch: []array.Array{x}})
		if err != nil {
			t.Fatal(err)
		}
		result, err := r.Wait()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, result.Loss, result.Norm)
	}
	return list
}

// TestBranches: branches on two devices have the losses and norms of one device, to the bit, before and after
// their state is moved to an executor of one device and back; the plan puts work on both, prints, reads back
// and is predicted to take less than one device.
func TestBranches(t *testing.T) {
	two := &strategy.Strategy{Branches: 2}
	one, err := choose.New(twoBranches(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	c := twoBranches(t, two)
	e, err := choose.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	want, got := take(t, one, 1, 3), take(t, e, 1, 3)
	again, err := choose.New(twoBranches(t, two))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	read, err := e.Reader()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range c.State() {
		a, err := read(x)
		if err == nil {
			err = again.Put(x, a)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want, got = append(want, take(t, one, 4, 6)...), append(got, take(t, again, 4, 6)...)
	for i := range want {
		if want[i] != got[i] {
			t.Errorf("step %d: %v on two devices, %v on one", i/2+1, got[i], want[i])
		}
	}
	batch := ir.Type{DType: array.F64, Shape: array.Shape{2048, 96}}
	p, err := choose.Plan(c, batch)
	if err != nil {
		t.Fatal(err)
	}
	for d, x := range p.Devices {
		if x.Memory.Weights == 0 {
			t.Errorf("device %d has no weights", d)
		}
	}
	text := p.Step.String()
	back, err := step.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if back.String() != text {
		t.Error("the plan reads back as another")
	}
	alone, err := choose.Plan(twoBranches(t, &strategy.Strategy{DP: 1}), batch)
	if err != nil {
		t.Fatal(err)
	}
	m := step.Machine{Cores: 2, Threads: 2, Crowd: 1, Prices: plan.UsualHost(2)}
	both, err := p.Step.Forecast(m)
	if err != nil {
		t.Fatal(err)
	}
	m.Cores, m.Threads = 1, 1
	single, err := alone.Step.Forecast(m)
	if err != nil || both.Seconds >= 0.8*single.Seconds {
		t.Errorf("two devices should take %v, one %v: %v", both, single, err)
	}
}

// TestNoBranches: where no message is worth it, one of the devices does all, and the step is planned and
// runs.
func TestNoBranches(t *testing.T) {
	c := twoBranches(t, &strategy.Strategy{Branches: 2})
	c.Prices.Default.Alpha = 1
	if _, err := choose.Plan(c, ir.Type{DType: array.F64, Shape: array.Shape{64, 96}}); err != nil {
		t.Fatal(err)
	}
	e, err := choose.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	take(t, e, 1, 2)
}

// TestBranchesRefused: what does not go with branches is refused by name.
func TestBranchesRefused(t *testing.T) {
	for want, s := range map[string]strategy.Strategy{
		"with dp=2":   {Branches: 2, DP: 2},
		"with zero=1": {Branches: 2, Zero: 1},
		"with micro":  {Branches: 2, Micro: 4},
		"amp=bf16":    {Branches: 2, AMP: "bf16"},
		"recompute":   {Branches: 2, Recompute: "full"},
		"is 3":        {Branches: 3},
	} {
		if _, err := choose.New(twoBranches(t, &s)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}
