package main

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/safetensors"
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
	in := nn.NewInit(nn.Config{Scope: s, DType: array.F64, Load: func(name string, _ op.Type) (*op.Tensor, error) {
		a, err := r.Read("param." + name)
		return s.Tensor(a), err
	}})
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
	// step 0  one device 2.547513  two branches 2.547513
	// step 1  one device 2.504200  two branches 2.504200
	// step 2  one device 2.464252  two branches 2.464252
	// step 3  one device 2.427250  two branches 2.427250
}
