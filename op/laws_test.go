package op_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// The laws hold for every op in the list. They are told nothing of an op but its samples.

// law runs f for every sample of every op.
func law(t *testing.T, f func(t *testing.T, o op.Op, args []op.Arg)) {
	for _, o := range op.All() {
		for i, s := range o.Samples() {
			sample := s.Op
			if sample == nil {
				sample = o
			}
			t.Run(fmt.Sprintf("%s/%d", o.Name(), i), func(t *testing.T) { f(t, sample, s.In) })
		}
	}
}

// fill makes an operand of a sample, with dtype in place of f32.
func fill(a op.Arg, dtype array.DType, rng *rand.Rand) array.Array {
	wide := array.New(array.F64, a.Type.Shape...)
	xs := array.Data[float64](wide)
	for i := range xs {
		switch {
		case a.Low != 0 || a.High != 0:
			xs[i] = a.Low + rng.Float64()*(a.High-a.Low)
		case a.Type.DType.IsFloat():
			xs[i] = rng.NormFloat64()
		default:
			xs[i] = float64(rng.IntN(2))
		}
		if !a.Type.DType.IsFloat() {
			xs[i] = math.Floor(xs[i])
		}
	}
	if a.Type.DType == array.F32 {
		return castTo(wide, dtype)
	}
	return castTo(wide, a.Type.DType)
}

func castTo(a array.Array, dtype array.DType) array.Array {
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	out, err := cpu.Read(op.Cast(d.NewSession().Tensor(a), dtype))
	if err != nil {
		panic(err)
	}
	return out
}

func fillAll(args []op.Arg, dtype array.DType, seed uint64) []array.Array {
	rng := rand.New(rand.NewPCG(seed, 1))
	out := make([]array.Array, len(args))
	for i, a := range args {
		out[i] = fill(a, dtype, rng)
	}
	return out
}

func device(t *testing.T, threads int) *cpu.Device {
	t.Helper()
	d := cpu.NewDevice(cpu.Config{Threads: threads})
	t.Cleanup(d.Close)
	return d
}

// evaluate runs o alone into memory that holds rubbish.
func evaluate(t *testing.T, d *cpu.Device, o op.Op, in []array.Array) []array.Array {
	t.Helper()
	types := make([]op.Type, len(in))
	for i, a := range in {
		types[i] = ir.TypeOf(a)
	}
	outTypes, err := o.Infer(types)
	if err != nil {
		t.Fatalf("%s: %v", ir.FormatOp(o), err)
	}
	out := make([]array.Array, len(outTypes))
	for i, ty := range outTypes {
		out[i] = array.New(ty.DType, ty.Shape...)
		if ty.DType != array.Bool {
			for j := range out[i].Bytes() {
				out[i].Bytes()[j] = 0xff
			}
		}
	}
	d.Eval(o, in, out)
	return out
}

func TestEveryOpIsComplete(t *testing.T) {
	names := map[string]bool{}
	for _, o := range op.All() {
		if names[o.Name()] {
			t.Errorf("two ops are called %q", o.Name())
		}
		names[o.Name()] = true
		if len(o.Samples()) == 0 {
			t.Errorf("%s has no sample", o.Name())
		}
	}
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		types := make([]op.Type, len(args))
		for i, a := range args {
			types[i] = a.Type
		}
		out, err := o.Infer(types)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Rule(types).Bind(shapes(types), shapes(out)); err != nil {
			t.Error(err)
		}
		if w := o.Work(types, out); w.Bytes < 0 || w.Flops < 0 || math.IsNaN(w.Flops+w.Bytes) {
			t.Errorf("work %+v", w)
		}
	})
}

func shapes(ts []op.Type) [][]int {
	out := make([][]int, len(ts))
	for i, t := range ts {
		out[i] = t.Shape
	}
	return out
}

// weighted is Σ⟨out, ct⟩ over the float results of o, with fixed pseudo-random cotangents.
func weighted(o op.Op, in []*op.Tensor) *op.Tensor {
	var total *op.Tensor
	for i, y := range ir.Apply(o, in...) {
		if y.Err() != nil {
			return y
		}
		if !y.DType().IsFloat() {
			continue
		}
		y = op.Cast(y, array.F64)
		n := y.Shape().Len()
		cts := make([]float64, n)
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		for j := range cts {
			cts[j] = rng.NormFloat64()
		}
		ct := array.FromSlice(cts, y.Shape()...)
		s := op.Sum(op.Mul(y, constant(y, ct)))
		if total == nil {
			total = s
		} else {
			total = op.Add(total, s)
		}
	}
	return total
}

// constant is a as a tensor beside x: data in an eager session, captured by a trace.
func constant(x *op.Tensor, a array.Array) *op.Tensor {
	if s, ok := x.Scope().(*cpu.Session); ok {
		return s.Tensor(a)
	}
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	return d.NewSession().Tensor(a)
}

func differentiable(o op.Op, args []op.Arg) []int {
	if _, no := o.(op.Undifferentiable); no {
		return nil
	}
	var xs []int
	for i, a := range args {
		if a.Type.DType.IsFloat() {
			xs = append(xs, i)
		}
	}
	return xs
}

func at(s *cpu.Session, in []array.Array) []*op.Tensor {
	out := make([]*op.Tensor, len(in))
	for i, a := range in {
		out[i] = s.Tensor(a).Track()
	}
	return out
}

func read(t *testing.T, x *op.Tensor) array.Array {
	t.Helper()
	a, err := cpu.Read(x)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func pick[T any](xs []T, which []int) []T {
	out := make([]T, len(which))
	for i, w := range which {
		out[i] = xs[w]
	}
	return out
}

// moveAlong is in + h·v for the operands in which.
func moveAlong(in, v []array.Array, which []int, h float64) []array.Array {
	out := append([]array.Array(nil), in...)
	for k, i := range which {
		out[i] = in[i].Clone()
		xs := array.Data[float64](out[i])
		for j := range xs {
			xs[j] += h * array.Data[float64](v[k])[j]
		}
	}
	return out
}

func directions(in []array.Array, which []int) []array.Array {
	rng := rand.New(rand.NewPCG(3, 3))
	out := make([]array.Array, len(which))
	for k, i := range which {
		out[k] = array.New(array.F64, in[i].Shape()...)
		for j := range out[k].Len() {
			array.Data[float64](out[k])[j] = rng.NormFloat64()
		}
	}
	return out
}

func dots(xs, ys []array.Array) float64 {
	s := 0.0
	for i := range xs {
		for j := range xs[i].Len() {
			s += xs[i].At(j) * ys[i].At(j)
		}
	}
	return s
}

const step = 1e-5

// TestVJP compares each gradient with central differences along a random direction.
func TestVJP(t *testing.T) {
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		which := differentiable(o, args)
		if len(which) == 0 {
			return
		}
		d := device(t, 1)
		in := fillAll(args, array.F64, 11)
		v := directions(in, which)
		value := func(h float64) float64 {
			y := weighted(o, at(d.NewSession(), moveAlong(in, v, which, h)))
			if y == nil {
				return 0
			}
			return read(t, y).At(0)
		}
		s := d.NewSession()
		xs := at(s, in)
		y := weighted(o, xs)
		if y == nil {
			return
		}
		var grads []array.Array
		for _, g := range op.Grad([]*op.Tensor{y}, nil, pick(xs, which)) {
			grads = append(grads, read(t, g))
		}
		near(t, dots(grads, v), (value(step)-value(-step))/(2*step), 1e-6)
	})
}

// TestSecondDerivative compares Hessian-vector products with central differences of gradients.
func TestSecondDerivative(t *testing.T) {
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		which := differentiable(o, args)
		if len(which) == 0 {
			return
		}
		d := device(t, 1)
		in := fillAll(args, array.F64, 13)
		v := directions(in, which)
		gradient := func(h float64) ([]*op.Tensor, []*op.Tensor) {
			xs := at(d.NewSession(), moveAlong(in, v, which, h))
			y := weighted(o, xs)
			if y == nil {
				return nil, nil
			}
			return op.Grad([]*op.Tensor{y}, nil, pick(xs, which)), pick(xs, which)
		}
		along := func(g []*op.Tensor) float64 {
			var as []array.Array
			for _, x := range g {
				as = append(as, read(t, x))
			}
			return dots(as, v)
		}
		g, xs := gradient(0)
		if g == nil {
			return
		}
		dg := make([]*op.Tensor, len(v))
		for i := range v {
			dg[i] = constant(g[i], v[i])
		}
		up, _ := gradient(step)
		down, _ := gradient(-step)
		near(t, along(op.Grad(g, dg, xs)), (along(up)-along(down))/(2*step), 1e-5)
	})
}

func near(t *testing.T, got, want, tolerance float64) {
	t.Helper()
	if diff := math.Abs(got - want); !(diff <= tolerance*(1+math.Abs(want))) {
		t.Errorf("got %.12g, central difference %.12g", got, want)
	}
}

// TestTraced runs value and gradient as one compiled program: the bits are those of the eager run, and the
// program's text reads back.
func TestTraced(t *testing.T) {
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		d := device(t, 2)
		in := fillAll(args, array.F32, 17)
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
		want := all(at(s, in))
		if len(in) == 0 {
			want = s.Apply(o, nil)
		}
		for i := range want {
			same(t, fmt.Sprintf("result %d", i), got[i], read(t, want[i]))
		}
	})
}

func same(t *testing.T, what string, got, want array.Array) {
	t.Helper()
	if string(got.Bytes()) != string(want.Bytes()) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestThreads: the number of threads never changes a bit.
func TestThreads(t *testing.T) {
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		in := fillAll(args, array.F32, 19)
		want := evaluate(t, device(t, 1), o, in)
		for i, got := range evaluate(t, device(t, 3), o, in) {
			same(t, fmt.Sprintf("result %d", i), got, want[i])
		}
	})
}

// TestInPlace: an op that may overwrite an operand gives the same bits when it does.
func TestInPlace(t *testing.T) {
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		ip, ok := o.(op.InPlacer)
		if !ok {
			return
		}
		d := device(t, 1)
		in := fillAll(args, array.F32, 23)
		want := evaluate(t, d, o, in)
		out, own := make([]array.Array, len(want)), make([]array.Array, len(in))
		for i, a := range in {
			own[i] = a.Clone()
		}
		for r := range want {
			out[r] = array.New(want[r].DType(), want[r].Shape()...)
			if over := ip.InPlace(); r < len(over) && over[r] >= 0 &&
				ir.TypeOf(own[over[r]]).Equal(ir.TypeOf(want[r])) {
				out[r] = own[over[r]]
			}
		}
		d.Eval(o, own, out)
		for i := range want {
			same(t, fmt.Sprintf("result %d", i), out[i], want[i])
		}
	})
}

// TestSameOperandTwice: a compiled op that may overwrite an operand does not where the same value is another
// operand, too, and is read after that. Operands of one type are made one value for it, which nothing else
// needs.
func TestSameOperandTwice(t *testing.T) {
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		ip, ok := o.(op.InPlacer)
		if !ok || len(args) < 2 {
			return
		}
		in := fillAll(args, array.F32, 29)
		for _, over := range ip.InPlace() {
			if over < 0 || over >= len(in) || !in[over].DType().IsFloat() {
				continue
			}
			b := ir.NewBuilder("twice")
			twice, values := slices.Clone(in), make([]*op.Tensor, len(in))
			one := op.Neg(op.Neg(b.Param("one", ir.TypeOf(in[over]))))
			for i, a := range in {
				if values[i] = one; ir.TypeOf(a).Equal(ir.TypeOf(in[over])) {
					twice[i] = in[over]
					continue
				}
				values[i] = op.Identity(b.Param("", ir.TypeOf(a)))
			}
			f, err := b.Build(ir.Apply(o, values...)...)
			if err != nil {
				t.Fatal(err)
			}
			given := []array.Array{in[over]}
			for i, a := range in {
				if values[i] != one {
					given = append(given, a)
				}
			}
			d := device(t, 1)
			want := evaluate(t, d, o, twice)
			e, err := d.Compile(f, cpu.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Run(given)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				same(t, fmt.Sprintf("result %d", i), got[i], want[i])
			}
		}
	})
}

// TestComposite: a fused kernel computes what its definition says.
func TestComposite(t *testing.T) {
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		c, ok := o.(op.Composite)
		if !ok {
			return
		}
		for _, dtype := range []array.DType{array.F64, array.F32} {
			d := device(t, 2)
			in := fillAll(args, dtype, 29)
			want := c.Decompose(at(d.NewSession(), in))
			for i, got := range evaluate(t, d, o, in) {
				if e := distance(got, read(t, want[i])); e > tolerance(dtype) {
					t.Errorf("%v result %d: relative error %.3g\ngot  %v\nwant %v", dtype, i, e, got, read(t, want[i]))
				}
			}
		}
	})
}

func tolerance(d array.DType) float64 {
	switch d {
	case array.F64:
		return 1e-12
	case array.F32:
		return 1e-5
	}
	return 2e-2
}

// distance is ‖got − want‖ / ‖want‖.
func distance(got, want array.Array) float64 {
	if !got.Shape().Equal(want.Shape()) {
		return math.Inf(1)
	}
	var diff, norm float64
	for i := range want.Len() {
		g, w := got.At(i), want.At(i)
		if g == w || g != g && w != w {
			continue
		}
		diff += (g - w) * (g - w)
		norm += w * w
	}
	return math.Sqrt(diff) / max(math.Sqrt(norm), 1e-6)
}

// onBits reports whether an op is one of the bits of f32 numbers, and takes no others.
func onBits(o op.Op) bool { return slices.Contains([]string{"split_f32", "join_f32"}, o.Name()) }

// TestHalf: on 16-bit floats an op is what it is on the same numbers in f32, rounded.
func TestHalf(t *testing.T) {
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		if onBits(o) {
			return
		}
		for _, dtype := range []array.DType{array.BF16, array.F16} {
			d := device(t, 1)
			in := fillAll(args, dtype, 31)
			types, wide := make([]op.Type, len(in)), make([]array.Array, len(in))
			for i, a := range in {
				types[i], wide[i] = ir.TypeOf(a), a
				if a.DType() == dtype {
					wide[i] = castTo(a, array.F32)
				}
			}
			if _, err := o.Infer(types); err != nil {
				t.Fatalf("%v: %v", dtype, err)
			}
			want := evaluate(t, d, o, wide)
			for i, got := range evaluate(t, d, o, in) {
				if e := distance(got, want[i]); e > tolerance(dtype) {
					t.Errorf("%v result %d: relative error %.3g", dtype, i, e)
				}
			}
		}
	})
}
