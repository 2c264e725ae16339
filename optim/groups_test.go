package optim_test

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// one returns the value of a parameter after a step with gradient 1 and rate 0.5, and its slots.
func one(t *testing.T, o optim.Optimizer, value float64) []float64 {
	t.Helper()
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	s := d.NewSession()
	p := s.Tensor(array.FromSlice([]float64{value}, 1))
	var slots []*op.Tensor
	for range o.Slots() {
		slots = append(slots, op.ZerosLike(p))
	}
	f := s.Tensor(array.FromSlice([]float32{1}, 1))
	at := optim.Step{LR: op.Reshape(op.MulScalar(f, 0.5)), Count: op.Reshape(f), Scale: op.Reshape(f)}
	next, kept := o.Update(p, op.OnesLike(p), slots, at)
	var out []float64
	for _, x := range append([]*op.Tensor{next}, kept...) {
		a, err := cpu.Read(x)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, a.At(0))
	}
	return out
}

func TestGroups(t *testing.T) {
	g := optim.Groups{Default: optim.SGD{WeightDecay: 1}, Groups: []optim.Group{
		{Params: []string{"*.bias"}, Optimizer: optim.SGD{}},
		{Params: []string{"head.*"}, LR: 0.5},
		{Params: []string{"moving.*"}, Optimizer: optim.SGD{Momentum: 0.9}},
	}}
	for name, want := range map[string]float64{
		"layer.weight": 4 - 0.5*5, "layer.bias": 4 - 0.5, "head.bias": 4 - 0.5, "head.weight": 4 - 0.25*5,
		"moving.weight": 4 - 0.5,
	} {
		got := one(t, optim.For(g, name), 4)
		if math.Abs(got[0]-want) > 1e-12 || len(got) != 2 {
			t.Errorf("%s: got %v, want %v and a slot", name, got, want)
		}
	}
	if o := optim.For(optim.SGD{}, "x"); o != (optim.SGD{}) {
		t.Errorf("one optimizer for all: got %v", o)
	}
}

func TestGroupsErrors(t *testing.T) {
	names := []string{"a.weight", "a.bias"}
	group := func(g optim.Group) optim.Groups {
		return optim.Groups{Default: optim.SGD{}, Groups: []optim.Group{g}}
	}
	for want, o := range map[string]optim.Optimizer{
		`"b.*" names no parameter`: group(optim.Group{Params: []string{"*.bias", "b.*"}}),
		`pattern "[": `:            group(optim.Group{Params: []string{"["}}),
		"rate: got -1":             group(optim.Group{LR: -1}),
		"no default":               optim.Averaged{Optimizer: optim.Groups{}},
	} {
		if err := optim.Check(o, names); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := optim.Check(group(optim.Group{Params: []string{"*.bias"}}), names); err != nil {
		t.Error(err)
	}
}

func TestAveraged(t *testing.T) {
	a := optim.Averaged{Optimizer: optim.SGD{}, Decay: 0.75}
	got := one(t, a, 4)
	if math.Abs(got[1]/a.Correction(1)-3.5) > 1e-12 {
		t.Errorf("after one step the average is %v, want the weight 3.5", got[1]/a.Correction(1))
	}
	if c := a.Correction(2); math.Abs(c-(1-0.75*0.75)) > 1e-12 || a.Correction(1<<40) != 1 {
		t.Errorf("correction: got %v", c)
	}
}

func TestLion(t *testing.T) {
	if got := one(t, optim.Lion{WeightDecay: 0.5}, 4); got[0] != 4-0.5*(1+2) || math.Abs(got[1]-0.01) > 1e-12 {
		t.Errorf("got %v", got)
	}
}
