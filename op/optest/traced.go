package optest

import (
	"fmt"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Traced runs value and gradient as one compiled program: the bits are those of the eager run, and the
// program's text reads back, where the op is built in or registered.
func Traced(t *testing.T, o op.Op, args []op.Arg) {
	d := Device(t, 2)
	in := Fill(args, array.F32, 17)
	which := differentiable(o, args)
	all := func(xs []*op.Tensor) []*op.Tensor {
		out := ir.Apply(o, xs...)
		if y := weighted(o, xs); y != nil && len(which) > 0 {
			out = append(out, op.Grad([]*op.Tensor{y}, nil, pick(xs, which))...)
		}
		return out
	}
	if len(in) == 0 {
		all = func([]*op.Tensor) []*op.Tensor { return nil }
	}
	b := ir.NewBuilder("main")
	params := make([]*op.Tensor, len(in))
	for i, a := range in {
		params[i] = b.Param(fmt.Sprint("x", i), ir.TypeOf(a))
	}
	results := all(params)
	if len(in) == 0 {
		results = b.Apply(o, nil)
	}
	f, err := b.Build(results...)
	if err != nil {
		t.Fatal(err)
	}
	if err := ir.Check(f); err != nil {
		t.Fatal(err)
	}
	back, err := ir.Parse(f.String(), op.Lookup)
	if err != nil {
		t.Fatalf("%v in\n%v", err, f)
	}
	if back.String() != f.String() {
		t.Fatalf("reads back as\n%v, was\n%v", back, f)
	}
	e, err := d.Compile(f, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Run(in)
	if err != nil {
		t.Fatal(err)
	}
	s := d.NewSession()
	want := all(Tensors(s, in))
	if len(in) == 0 {
		want = s.Apply(o, nil)
	}
	for i := range want {
		Same(t, fmt.Sprintf("result %d", i), got[i], Read(t, want[i]))
	}
}
