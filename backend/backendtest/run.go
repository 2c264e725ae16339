package backendtest

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Run tests the backend that open makes; each part opens its own.
func Run(t *testing.T, open func(t *testing.T) backend.Backend) {
	for _, part := range []struct {
		name string
		run  func(t *testing.T, b backend.Backend)
	}{
		{"name", named},
		{"every dtype goes there and back", roundTrip},
		{"programs compute", computes},
		{"donated memory becomes results", donation},
		{"a step in a loop stays on the device", loop},
		{"captured tensors are bound", captures},
		{"equal programs compile again", again},
		{"results may be arguments", passThrough},
		{"memory is told", memory},
		{"mistakes are errors", mistakes},
		{"devices run a program together", spmd},
		{"devices donate alike", spmdDonates},
		{"mistakes with several devices are errors", spmdMistakes},
	} {
		t.Run(part.name, func(t *testing.T) {
			b := open(t)
			part.run(t, b)
			if err := b.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

func named(t *testing.T, b backend.Backend) {
	if b.Name() == "" {
		t.Error("it has no name")
	}
}

func roundTrip(t *testing.T, b backend.Backend) {
	for _, dtype := range array.DTypes() {
		for _, shape := range []array.Shape{nil, {3}, {2, 5}, {0, 4}} {
			a := array.New(dtype, shape...)
			for i := range a.Bytes() {
				a.Bytes()[i] = byte(i % 2) // ones and zeros are truth values, too
			}
			got := read(t, put(t, b, a))
			if !ir.TypeOf(got).Equal(ir.TypeOf(a)) || string(got.Bytes()) != string(a.Bytes()) {
				t.Errorf("%v: got %v, want %v", ir.TypeOf(a), got, a)
			}
		}
	}
}

// computes runs a product, an elementwise function and a sum with f64 against plain loops.
func computes(t *testing.T, b backend.Backend) {
	f := trace(t, types(array.F64, []int{3, 4}, []int{4, 5}), func(in []*op.Tensor) []*op.Tensor {
		y := op.Tanh(op.MatMul(in[0], in[1]))
		return []*op.Tensor{y, op.Sum(y)}
	})
	x, w := numbers(3, 4), numbers(4, 5)
	out := run(t, compile(t, b, f, backend.Options{}), put(t, b, x), put(t, b, w))
	y, total := read(t, out[0]), 0.0
	for i := range 3 {
		for j := range 5 {
			s := 0.0
			for k := range 4 {
				s += x.At(i*4+k) * w.At(k*5+j)
			}
			near(t, "element", y.At(i*5+j), math.Tanh(s))
			total += math.Tanh(s)
		}
	}
	near(t, "sum", read(t, out[1]).At(0), total)
}

func donation(t *testing.T, b backend.Backend) {
	f := trace(t, types(array.F64, []int{4}, []int{4}), func(in []*op.Tensor) []*op.Tensor {
		return []*op.Tensor{op.Add(in[0], in[1])}
	})
	exe := compile(t, b, f, backend.Options{Donate: []int{0}})
	x, y := put(t, b, numbers(4)), put(t, b, numbers(4))
	out := run(t, exe, x, y)
	for i := range 4 {
		near(t, "sum", read(t, out[0]).At(i), 2*numbers(4).At(i))
		near(t, "what was not donated", read(t, y).At(i), numbers(4).At(i))
	}
	if _, err := x.Read(); err == nil {
		t.Error("a donated buffer can be read")
	}
	if _, err := exe.Run([]backend.Buffer{x, y}); err == nil {
		t.Error("a donated buffer can be used again")
	}
}

func loop(t *testing.T, b backend.Backend) {
	f := trace(t, types(array.F64, []int{8}), func(in []*op.Tensor) []*op.Tensor {
		return []*op.Tensor{op.AddScalar(op.MulScalar(in[0], 0.5), 1), op.Sum(in[0])}
	})
	exe := compile(t, b, f, backend.Options{Donate: []int{0}})
	x, want := put(t, b, numbers(8)), numbers(8).At(3)
	for range 50 {
		out := run(t, exe, x)
		out[1].Free()
		x, want = out[0], want*0.5+1
	}
	near(t, "after 50 steps", read(t, x).At(3), want)
	x.Free()
}

func captures(t *testing.T, b backend.Backend) {
	s := leafScope{}
	bld := ir.NewBuilder("capture")
	x := bld.Param("x", ir.Type{DType: array.F64, Shape: array.Shape{4}})
	f, err := bld.Build(op.Mul(x, ir.Leaf(s, ir.TypeOf(numbers(4)), numbers(4))))
	if err != nil {
		t.Fatal(err)
	}
	out := run(t, compile(t, b, f, backend.Options{}), put(t, b, numbers(4)))
	near(t, "square", read(t, out[0]).At(2), numbers(4).At(2)*numbers(4).At(2))
}

// leafScope holds tensors that a trace captures; nothing is computed in it.
type leafScope struct{}

func (leafScope) Apply(o ir.Op, in []*ir.Value) []*ir.Value {
	panic("backendtest: a captured tensor is only read")
}

func again(t *testing.T, b backend.Backend) {
	f := trace(t, types(array.F64, []int{2}),
		func(in []*op.Tensor) []*op.Tensor { return []*op.Tensor{op.Exp(in[0])} })
	for range 2 {
		exe := compile(t, b, f, backend.Options{})
		near(t, "exp", read(t, run(t, exe, put(t, b, numbers(2)))[0]).At(1), math.Exp(numbers(2).At(1)))
		if err := exe.Close(); err != nil {
			t.Error(err)
		}
	}
}

func passThrough(t *testing.T, b backend.Backend) {
	f := trace(t, types(array.F64, []int{2}), func(in []*op.Tensor) []*op.Tensor {
		return []*op.Tensor{in[0],
			in[0], op.Neg(in[0])}
	})
	out := run(t, compile(t, b, f, backend.Options{}), put(t, b, numbers(2)))
	near(t, "argument", read(t, out[1]).At(1), numbers(2).At(1))
	near(t, "negated", read(t, out[2]).At(1), -numbers(2).At(1))
}

func memory(t *testing.T, b backend.Backend) {
	f := trace(t, types(array.F64, []int{64, 64}),
		func(in []*op.Tensor) []*op.Tensor { return []*op.Tensor{op.MatMul(in[0], in[0])} })
	m := compile(t, b, f, backend.Options{}).Memory()
	if want := 64 * 64 * 8; m.Params < want || m.Results < want || m.Peak() < 2*want {
		t.Errorf("got %+v, want at least %d bytes each for the parameter and the result", m, want)
	}
}

func mistakes(t *testing.T, b backend.Backend) {
	f := trace(t, types(array.F64, []int{2}, []int{2}),
		func(in []*op.Tensor) []*op.Tensor { return []*op.Tensor{op.Add(in[0], in[1])} })
	if _, err := b.Compile(f, backend.Options{Donate: []int{2}}); err == nil ||
		!strings.Contains(err.Error(), "parameter 2") {
		t.Errorf("donation of a parameter that is not there: got %v", err)
	}
	exe := compile(t, b, f, backend.Options{})
	x := put(t, b, numbers(2))
	if _, err := exe.Run([]backend.Buffer{x}); err == nil {
		t.Error("too few arguments run")
	}
	if _, err := exe.Run([]backend.Buffer{x, put(t, b, numbers(3))}); err == nil {
		t.Error("an argument of another type runs")
	}
	x.Free()
	if _, err := exe.Run([]backend.Buffer{x, x}); err == nil {
		t.Error("a freed buffer runs")
	}
}
