package optim_test

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// TestRecordedOptimizers: five steps on matrices and a vector give what PyTorch's optimizers give in float64;
// testdata/optimizers.py has recorded them.
func TestRecordedOptimizers(t *testing.T) {
	for name, c := range map[string]struct {
		o      optim.Optimizer
		lr     float64
		params []string
	}{
		"adafactor": {optim.Adafactor{WeightDecay: 0.01}, 1e-2, []string{"wide", "tall", "bias"}},
		"muon":      {optim.Muon{WeightDecay: 0.1}, 2e-2, []string{"wide", "tall"}},
		"muon_match": {optim.Muon{WeightDecay: 0.1, MatchAdamW: true, Plain: true}, 2e-2,
			[]string{"wide", "tall"}},
	} {
		for _, p := range c.params {
			t.Run(name+"/"+p, func(t *testing.T) { follow(t, name, p, c.o, c.lr) })
		}
	}
}

func follow(t *testing.T, file, param string, o optim.Optimizer, lr float64) {
	r, err := safetensors.Open(filepath.Join("testdata", file+".safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	s := d.NewSession()
	tensor := func(name string) *op.Tensor {
		a, err := r.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		return s.Tensor(a)
	}
	p := tensor("first." + param)
	var slots []*op.Tensor
	for _, x := range optim.SlotTypes(o, param, p.Type()) {
		slots = append(slots, op.Full(s, x.DType, x.Shape, 0))
	}
	if len(slots) != o.Slots() {
		t.Fatalf("got %d slots, want %d", len(slots), o.Slots())
	}
	number := func(x float64) *op.Tensor { return s.Tensor(array.Scalar(x)) }
	for i := range 5 {
		at := optim.Step{LR: number(lr), Count: number(float64(i + 1)), Scale: number(1)}
		p, slots = optim.For(o, param).Update(p, tensor(fmt.Sprintf("grad.%d.%s", i, param)), slots, at)
		for k, x := range optim.SlotTypes(o, param, p.Type()) {
			if !slots[k].Type().Equal(x) {
				t.Fatalf("slot %d is %v, want %v", k, slots[k].Type(), x)
			}
		}
		got, err := cpu.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		want, err := r.Read(fmt.Sprintf("next.%d.%s", i, param))
		if err != nil {
			t.Fatal(err)
		}
		for k := range want.Len() {
			if math.Abs(got.At(k)-want.At(k)) > 1e-12 {
				t.Fatalf("step %d, element %d: got %v, want %v", i, k, got.At(k), want.At(k))
			}
		}
	}
}

// TestMuonRest: embeddings, heads, norms and biases are Rest's, a bank of matrices is Muon's one by one.
func TestMuonRest(t *testing.T) {
	o := optim.Muon{Rest: optim.SGD{}, RestLR: 0.5}
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	s := d.NewSession()
	step := func(name string, shape ...int) array.Array {
		p := op.Full(s, array.F64, shape, 0)
		g := op.Normal(s, op.Key{Seed: 3}, array.F64, shape)
		var slots []*op.Tensor
		for _, x := range optim.SlotTypes(o, name, p.Type()) {
			slots = append(slots, op.Full(s, x.DType, x.Shape, 0))
		}
		one := s.Tensor(array.Scalar(1.0))
		next, _ := optim.For(o, name).Update(p, g, slots, optim.Step{LR: one, Count: one, Scale: one})
		out := next
		if name != "model.layers.0.w" {
			out = op.Add(next, op.MulScalar(g, 0.5)) // zero for half of a step of SGD
		}
		a, err := cpu.Read(out)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for name, shape := range map[string][]int{"model.embed_tokens.weight": {3, 2}, "lm_head.weight": {3, 2},
		"model.layers.0.norm.weight": {4}} {
		a := step(name, shape...)
		for i := range a.Len() {
			if a.At(i) != 0 {
				t.Errorf("%s: element %d is %v away from a step of SGD", name, i, a.At(i))
			}
		}
	}
	bank := step("model.layers.0.w", 2, 3, 3)
	first := array.Data[float64](bank)[:9]
	for i := range 3 { // rows of one matrix have lengths of about 1
		n := 0.0
		for j := range 3 {
			n += first[3*i+j] * first[3*i+j]
		}
		if n < 0.4 || n > 1.7 {
			t.Errorf("row %d has a square of %v: want about 1", i, n)
		}
	}
}
