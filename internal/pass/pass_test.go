package pass_test

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/golden"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/op"
)

func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txt", func(t *testing.T, b golden.Block) string {
		f, err := ir.Parse(b.Input, op.Lookup)
		if err != nil {
			return "error: " + err.Error()
		}
		if b.Command == "fuse" {
			return fuseText(t, b, f)
		}
		f, err = run(b, f)
		if err != nil {
			return "error: " + err.Error()
		}
		if err := ir.Check(f); err != nil {
			t.Error(err)
		}
		return f.String()
	})
}

// fuseText returns the loops of a program, or of one with its gradients, with the reasons; as strips, which
// all machines have.
func fuseText(t *testing.T, b golden.Block, f *ir.Func) string {
	t.Setenv("GALLEY_JIT", "off")
	var err error
	if len(b.Args) > 0 {
		if f, err = run(golden.Block{Command: b.Args[0], Args: b.Args[1:]}, f); err == nil {
			f, err = pass.Optimize(f)
		}
	}
	if err != nil {
		return "error: " + err.Error()
	}
	g, groups, err := pass.Groups(f, pass.GroupConfig{Always: true})
	if err != nil {
		return "error: " + err.Error()
	}
	if err := ir.Check(g); err != nil {
		t.Error(err)
	}
	return pass.FormatLoops(g) + groups.Why()
}

// run applies the pass that the block names; grad takes the parameters' numbers.
func run(b golden.Block, f *ir.Func) (*ir.Func, error) {
	if b.Command == "grad" {
		var wrt []int
		for _, a := range b.Args {
			n, err := strconv.Atoi(a)
			if err != nil {
				return nil, err
			}
			wrt = append(wrt, n)
		}
		return pass.Grad(f, wrt)
	}
	switch b.Command {
	case "autocast":
		dtype, err := array.ParseDType(b.Args[0])
		if err != nil {
			return nil, err
		}
		return pass.Autocast(f, dtype)
	case "join":
		return pass.Join(f)
	}
	for _, p := range pass.Passes() {
		if p.Name == b.Command {
			return p.Run(f)
		}
	}
	return pass.Optimize(f)
}

// TestPassesKeepResults: whatever the passes do, the numbers stay, and a second run changes nothing.
func TestPassesKeepResults(t *testing.T) {
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	rapid.Check(t, func(t *rapid.T) {
		f := randomProgram(t)
		g, err := pass.Optimize(f)
		if err != nil {
			t.Fatal(err)
		}
		again, err := pass.Optimize(g)
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Nodes()) != len(g.Nodes()) {
			t.Fatalf("a second run makes\n%v of\n%v", again, g)
		}
		args := []array.Array{array.FromSlice([]float32{1, -2, 3, 0.5, 7, -1}, 2, 3),
			array.FromSlice([]float32{2, 1, 0, -1, 1, 4}, 2, 3)}
		want, got := execute(t, d, f, args), execute(t, d, g, args)
		for i := range want {
			if string(want[i].Bytes()) != string(got[i].Bytes()) {
				t.Fatalf("result %d: got %v, want %v\n%v\n%v", i, got[i], want[i], f, g)
			}
		}
	})
}

func execute(t interface{ Fatal(...any) }, d *cpu.Device, f *ir.Func, args []array.Array) []array.Array {
	e, err := d.Compile(f, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Run(args)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// randomProgram draws ops that fold, merge, alias and overwrite, then differentiates.
func randomProgram(t *rapid.T) *ir.Func {
	b := ir.NewBuilder("random")
	typ := ir.Type{DType: array.F32, Shape: array.Shape{2, 3}}
	x, y := b.Param("x", typ), b.Param("y", typ)
	values := []*op.Tensor{x, y}
	one := func() *op.Tensor { return rapid.SampledFrom(values).Draw(t, "operand") }
	for range rapid.IntRange(1, 15).Draw(t, "nodes") {
		var v *op.Tensor
		switch rapid.IntRange(0, 6).Draw(t, "op") {
		case 0:
			v = op.Tanh(one())
		case 1:
			v = op.Add(one(), one())
		case 2:
			v = op.Mul(one(), one())
		case 3:
			v = op.Reshape(op.Reshape(one(), 3, 2), 2, 3)
		case 4:
			v = op.Transpose(op.Transpose(one()))
		case 5:
			v = op.Mul(one(), op.Const(x, 0.5))
		case 6:
			v = op.Sub(op.Identity(one()), op.Softmax(one(), -1))
		}
		values = append(values, v)
	}
	total := op.Sum(one())
	results := append([]*op.Tensor{total, one()}, op.Grad([]*op.Tensor{total}, nil, []*op.Tensor{x, y})...)
	f, err := b.Build(results...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
