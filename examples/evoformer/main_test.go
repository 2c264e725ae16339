package main

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/distribute"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// TestRecordedBlock: a block gives what plain PyTorch gives in float64, gradients of all parameters included;
// models/testdata/evoformer.py has recorded it.
func TestRecordedBlock(t *testing.T) {
	r, err := safetensors.Open("../../models/testdata/evoformer.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	s := d.NewSession()
	recorded := func(name string) array.Array {
		a, err := r.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	in := nn.NewInit(
		nn.Config{Scope: s, DType: array.F64, Load: func(name string, _ op.Type) (*op.Tensor, error) {
			a, err := r.Read("param." + name)
			return s.Tensor(a), err
		}},
	)
	b := NewBlock(in, Config{MSA: 8, Pair: 6, Heads: 2, Dim: 4, Triangle: 4, Outer: 3, Expand: 2})
	if in.Err() != nil {
		t.Fatal(in.Err())
	}
	m, z := s.Tensor(recorded("m")).Track(), s.Tensor(recorded("z")).Track()
	msa, pair := b.Forward(m, z)
	loss := op.Add(op.Mean(op.Square(msa)), op.Mean(op.Square(pair)))
	names, of := []string{"m", "z"}, []*op.Tensor{m, z}
	for _, p := range in.Params() {
		names, of = append(names, p.Name), append(of, p.Value)
	}
	same := func(name string, x *op.Tensor) {
		t.Helper()
		got, err := galley.Read(x)
		if err != nil {
			t.Fatal(err)
		}
		want := recorded(name)
		for i := range want.Len() {
			if !(math.Abs(got.At(i)-want.At(i)) <= 1e-12*(1+math.Abs(want.At(i)))) {
				t.Fatalf("%s: element %d: got %v, want %v", name, i, got.At(i), want.At(i))
			}
		}
	}
	same("msa", msa)
	same("pair", pair)
	same("loss", op.Reshape(loss, 1))
	for i, g := range op.GradOnce([]*op.Tensor{loss}, nil, of) {
		same("grad."+names[i], g)
	}
	count := 0
	for _, name := range r.Names() {
		if strings.HasPrefix(name, "param.") {
			count++
		}
	}
	if count != len(in.Params()) {
		t.Errorf("the block has %d parameters, the recorded one %d", len(in.Params()), count)
	}
}

func Example() {
	main()
	// Output:
	// step 0  one device 2.547513  two branches 2.547513  found by the planner 2.547513
	// step 1  one device 2.504200  two branches 2.504200  found by the planner 2.504200
	// step 2  one device 2.464252  two branches 2.464252  found by the planner 2.464252
	// step 3  one device 2.427250  two branches 2.427250  found by the planner 2.427250
}

// TestPlanned: the planner puts the block on two devices where messages are cheap, and on one where they are
// not; the losses are the same to the last digits either way.
func TestPlanned(t *testing.T) {
	if testing.Short() {
		t.Skip("short: a search takes seconds, and runs by itself")
	}
	host := galley.CPU(galley.Config{Threads: 1})
	defer host.Close()
	w, err := dtensor.NewWorld(host, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	first, err := mesh.Parse("x=1")
	if err != nil {
		t.Fatal(err)
	}
	second, err := mesh.Parse("x=1@[1]")
	if err != nil {
		t.Fatal(err)
	}
	b := branches{world: w, first: first, second: first, config: small, sequences: sequences, residues: residues}
	want, err := b.train()
	if err != nil {
		t.Fatal(err)
	}
	b.second = second
	for _, c := range []struct {
		alpha float64
		found bool
	}{{1e-6, true}, {1, false}} {
		b.planned = &distribute.Prices{
			Flop:    1e-9,
			Memory:  1e-10,
			Default: distribute.Link{Alpha: c.alpha, Beta: 1e-11},
		}
		got, err := b.train()
		if err != nil {
			t.Fatal(err)
		}
		if p := b.plan; p.Found != c.found || p.Found && (p.Messages == 0 || p.Seconds > 0.8*p.Serial) {
			t.Errorf("messages of %g s: %v", c.alpha, p)
		}
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-13 {
				t.Errorf("step %d: got %v, want %v", i, got[i], want[i])
			}
		}
	}
}
