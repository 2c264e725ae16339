package optim_test

import (
	"math"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		s    optim.Schedule
		step int
		want float64
	}{
		{optim.Constant{LR: 2}, 7, 2},
		{optim.Constant{LR: 2, Warmup: 4}, 0, 0.5},
		{optim.Constant{LR: 2, Warmup: 4}, 3, 2},
		{optim.Linear{LR: 2, Final: 1, Steps: 10}, 5, 1.5},
		{optim.Linear{LR: 2, Steps: 10}, 99, 0},
		{optim.Cosine{LR: 2, Final: 1, Warmup: 2, Steps: 12}, 7, 1.5},
		{optim.Cosine{LR: 2, Warmup: 2, Steps: 12}, 2, 2},
		{optim.Cosine{LR: 2, Final: 0.2, Warmup: 2, Steps: 12}, 500, 0.2},
		{optim.WSD{LR: 2, Final: 1, Warmup: 2, Decay: 4, Steps: 12}, 0, 1},
		{optim.WSD{LR: 2, Final: 1, Warmup: 2, Decay: 4, Steps: 12}, 7, 2},
		{optim.WSD{LR: 2, Final: 1, Warmup: 2, Decay: 4, Steps: 12}, 10, 1.5},
		{optim.WSD{LR: 2, Final: 1, Warmup: 2, Decay: 4, Steps: 12}, 99, 1},
		{optim.CosineRestarts{LR: 2, Period: 4}, 2, 1},
		{optim.CosineRestarts{LR: 2, Period: 4}, 4, 2},
		{optim.CosineRestarts{LR: 2, Period: 4, Growth: 2}, 8, 1},
		{optim.CosineRestarts{LR: 2, Period: 4, Growth: 2}, 12, 2},
		{optim.InverseSqrt{LR: 2, Warmup: 4}, 1, 1},
		{optim.InverseSqrt{LR: 2, Warmup: 4}, 3, 2},
		{optim.InverseSqrt{LR: 2, Warmup: 4}, 15, 1},
		{optim.InverseSqrt{LR: 2}, 3, 1},
	} {
		if got := c.s.At(c.step); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v at %d: got %v, want %v", c.s, c.step, got, c.want)
		}
	}
}

// minimise runs an optimizer on ‖p − 3‖² and returns the distance that is left.
func minimise(t *testing.T, o optim.Optimizer, lr float64, steps int) float64 {
	t.Helper()
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	s := d.NewSession()
	p := s.Tensor(array.FromSlice([]float32{0, 10, -5}, 3))
	var slots []*op.Tensor
	for range o.Slots() {
		slots = append(slots, op.ZerosLike(p))
	}
	for i := range steps {
		x := p.Track()
		loss := op.Sum(op.Square(op.AddScalar(x, -3)))
		g := op.GradOnce([]*op.Tensor{loss}, nil, []*op.Tensor{x})[0]
		at := optim.Step{LR: op.Const(p, lr), Count: op.Const(p, float64(i+1)), Scale: op.Const(p, 1)}
		p, slots = o.Update(p, g, slots, at)
	}
	a, err := cpu.Read(op.Sum(op.Square(op.AddScalar(p, -3))))
	if err != nil {
		t.Fatal(err)
	}
	return math.Sqrt(a.At(0))
}

func TestOptimizersConverge(t *testing.T) {
	for name, c := range map[string]struct {
		o  optim.Optimizer
		lr float64
	}{
		"sgd":      {optim.SGD{}, 0.1},
		"momentum": {optim.SGD{Momentum: 0.8}, 0.05},
		"nesterov": {optim.SGD{Momentum: 0.8, Nesterov: true}, 0.05},
		"adam":     {optim.Adam{}, 0.3},
		"adamw":    {optim.AdamW{}, 0.3},
		"averaged": {optim.Averaged{Optimizer: optim.AdamW{}}, 0.3},
		"groups":   {optim.Groups{Default: optim.SGD{}, Groups: []optim.Group{{Optimizer: optim.AdamW{}}}}, 0.1},
	} {
		if left := minimise(t, c.o, c.lr, 300); !(left < 1e-2) {
			t.Errorf("%s is %v away after 300 steps", name, left)
		}
	}
}

func TestClip(t *testing.T) {
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	s := d.NewSession()
	grads := []*op.Tensor{s.Tensor(array.FromSlice([]float32{3}, 1)), s.Tensor(array.FromSlice([]float32{4}, 1))}
	norm := optim.GlobalNorm(grads)
	for limit, want := range map[float64]float64{1: 0.2, 100: 1} {
		scale, err := cpu.Read(optim.ClipScale(norm, limit))
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(scale.At(0)-want) > 1e-6 {
			t.Errorf("limit %v: scale %v, want %v", limit, scale.At(0), want)
		}
	}
}

// TestNoMomentum: a first beta of 0 is 0 where the second is set: a step then follows the last gradient
// alone.
func TestNoMomentum(t *testing.T) {
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	s := d.NewSession()
	number := func(x float32) *op.Tensor { return s.Tensor(array.Scalar(x)) }
	for _, o := range []optim.Optimizer{optim.AdamW{Beta2: 0.5}, optim.Adam{Beta2: 0.5}} {
		slots := []*op.Tensor{number(7), number(0)} // of an earlier gradient
		step := optim.Step{LR: number(1), Count: number(1), Scale: number(1)}
		_, next := o.Update(number(0), number(2), slots, step)
		if m, err := cpu.Read(next[0]); err != nil || m.At(0) != 2 {
			t.Errorf("%T: the first moment is %v, want the gradient, 2 (%v)", o, m, err)
		}
	}
}
