package op_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Partial derivatives of x³t² at two points.
func ExampleDerivatives() {
	f := func(p *op.Tensor) *op.Tensor {
		x, t := op.Narrow(p, 1, 0, 1), op.Narrow(p, 1, 1, 2)
		return op.Mul(op.Pow(x, 3), op.Square(t))
	}
	s := cpu.NewDevice(cpu.Config{}).NewSession()
	points := s.Tensor(array.FromSlice([]float64{1, 2, 2, 1}, 2, 2))
	for _, d := range op.Derivatives(f, points, "x", "t", "xx", "xxt") {
		a, err := cpu.Read(d)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(a.Float64s())
	}
	// Output:
	// [12 12]
	// [4 16]
	// [24 12]
	// [24 24]
}

// field returns a small network of two inputs.
func field(w []*op.Tensor) func(x *op.Tensor) *op.Tensor {
	return func(x *op.Tensor) *op.Tensor {
		h := op.Tanh(op.LinearT(x, w[0], w[1]))
		return op.LinearT(op.GELU(h, "none"), w[2], w[3])
	}
}

func fieldWeights() []op.Arg {
	f64 := func(shape ...int) op.Arg { return op.Arg{Type: op.Type{DType: array.F64, Shape: shape}} }
	return []op.Arg{f64(7, 2), f64(2, 5), f64(5), f64(5, 1), f64(1)}
}

// residual returns what an equation with mixed derivatives leaves over, of derivatives by column.
func residual(u, ux, ut, uxx, uxt, uxxt *op.Tensor) *op.Tensor {
	sum := op.Add(op.Add(ut, op.Mul(u, ux)), op.Add(op.MulScalar(uxx, -0.1), op.Mul(uxt, uxxt)))
	return op.Mean(op.Square(sum))
}

// TestDerivatives: the gradient of a loss of derivatives with respect to the weights is that of Grad of Grad,
// eagerly and traced.
func TestDerivatives(t *testing.T) {
	in := fillAll(fieldWeights(), array.F64, 5)
	grads := func(loss *op.Tensor, w []*op.Tensor) []*op.Tensor {
		return append([]*op.Tensor{loss}, op.Grad([]*op.Tensor{loss}, nil, w)...)
	}
	forward := func(in []*op.Tensor) []*op.Tensor {
		d := op.Derivatives(field(in[1:]), in[0], "", "x", "t", "xx", "tx", "xtx")
		return grads(residual(d[0], d[1], d[2], d[3], d[4], d[5]), in[1:])
	}
	backward := func(in []*op.Tensor) []*op.Tensor {
		x := in[0]
		by := func(y *op.Tensor, column int) *op.Tensor {
			return op.Narrow(op.Grad([]*op.Tensor{op.Sum(y)}, nil, []*op.Tensor{x})[0], 1, column, column+1)
		}
		u := field(in[1:])(x)
		ux, ut := by(u, 0), by(u, 1)
		uxx, uxt := by(ux, 0), by(ux, 1)
		return grads(residual(u, ux, ut, uxx, uxt, by(uxx, 1)), in[1:])
	}
	d := device(t, 2)
	want := backward(at(d.NewSession(), in))
	for i, got := range forward(at(d.NewSession(), in)) {
		closeTo(t, fmt.Sprint("eager result ", i), read(t, got), read(t, want[i]))
	}
	for i, got := range compiled(t, d, in, forward) {
		closeTo(t, fmt.Sprint("traced result ", i), got, read(t, want[i]))
	}
}

func compiled(t *testing.T, d *cpu.Device, in []array.Array,
	f func(in []*op.Tensor) []*op.Tensor) []array.Array {
	t.Helper()
	b := ir.NewBuilder("main")
	params := make([]*op.Tensor, len(in))
	for i, a := range in {
		params[i] = b.Param("", ir.TypeOf(a))
	}
	p, err := b.Build(f(params)...)
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Compile(p, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Run(in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func closeTo(t *testing.T, what string, got, want array.Array) {
	t.Helper()
	if e := distance(got, want); !(e <= 1e-11) {
		t.Errorf("%s: relative error %.3g: got %v, want %v", what, e, got, want)
	}
}

// TestTaylorColumns: columns have the letters that are given them, and order 5 is as good as order 1.
func TestTaylorColumns(t *testing.T) {
	s := device(t, 1).NewSession()
	x := s.Tensor(array.FromSlice([]float64{0.3, 0.7, -0.2, 0.1}, 2, 2))
	first := func(p *op.Tensor) *op.Tensor { return op.Sin(op.Narrow(p, 1, 0, 1)) }
	d := op.Derivatives(first, x, "ts:", "ttttt", "s")
	closeTo(t, "fifth", read(t, d[0]), read(t, op.Cos(op.Narrow(x, 1, 0, 1))))
	if got := read(t, d[1]).Float64s(); got[0] != 0 || got[1] != 0 {
		t.Errorf("along the other column: got %v", got)
	}
}

func TestTaylorMistakes(t *testing.T) {
	s := device(t, 1).NewSession()
	x := s.Tensor(array.New(array.F64, 3, 2))
	same := func(x *op.Tensor) *op.Tensor { return x }
	update := func(p *op.Tensor) *op.Tensor {
		one := op.Const(p, 1)
		w, _ := op.SGD(op.SGDState{Param: p, Grad: p, LR: one, GradScale: one}, op.SGDConfig{})
		return w
	}
	ints := s.Tensor(array.New(array.I32, 3, 2))
	tracked, short := x.Track(), s.Tensor(array.New(array.F64, 3, 1))
	taylor := func(x *op.Tensor, d op.Direction) *op.Tensor {
		return op.Taylor([]*op.Tensor{op.Square(x)}, []*op.Tensor{x}, d)[0][0][0]
	}
	for want, y := range map[string]*op.Tensor{
		`2 column(s), of which "x" are named`:     op.Derivatives(same, x, "x", "xx")[0],
		`no column is called "z"`:                 op.Derivatives(same, x, "xt:", "xz")[0],
		`columns "xx": want a letter`:             op.Derivatives(same, x, "xx:", "x")[0],
		`columns "Xt": want a letter`:             op.Derivatives(same, x, "Xt:", "t")[0],
		`want floats [points, columns]`:           op.Derivatives(same, ints, "x")[0],
		`log: want a float operand`:               op.Derivatives(same, op.Log(ints), "x")[0],
		`sgd has no derivative: it is an opt`:     op.Derivatives(update, x, "x", "t")[1],
		`is not tracked`:                          taylor(x, op.Direction{Along: []*op.Tensor{x}, Order: 1}),
		`direction 0: order is -1`:                taylor(tracked, op.Direction{Along: []*op.Tensor{x}, Order: -1}),
		`direction 0: got 0 velocities for 1`:     taylor(tracked, op.Direction{Order: 1}),
		`velocity 0 is f64[3,1]: want floats of `: taylor(tracked, op.Direction{Along: []*op.Tensor{short}}),
	} {
		if y.Err() == nil || !strings.Contains(y.Err().Error(), want) {
			t.Errorf("got %v, want %q", y.Err(), want)
		}
	}
}

// TestFlat: where a gradient is stopped, or a function has steps, a series stops, too.
func TestFlat(t *testing.T) {
	s := device(t, 1).NewSession()
	x := s.Tensor(floats64(0.4, 1.7)).Track()
	y := op.Mul(op.Add(op.Square(op.StopGradient(x)), op.Floor(x)), x)
	line := op.Direction{Along: []*op.Tensor{op.OnesLike(x)}, Order: 2}
	got := op.Taylor([]*op.Tensor{y}, []*op.Tensor{x}, line)[0]
	closeTo(t, "first", read(t, got[1][0]), floats64(0.16, 1+1.7*1.7))
	closeTo(t, "second", read(t, got[2][0]), floats64(0, 0))
}
