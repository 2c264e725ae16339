package pass_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/op"
)

// randomLoops draws a program of maps, folds, sums of columns, changes of shape, walks and joins over a few
// sizes, with several results.
func randomLoops(t *rapid.T) *ir.Func {
	b := ir.NewBuilder("loops")
	rows, cols := rapid.SampledFrom([]int{1, 2, 3, 7, 300}).Draw(t, "rows"),
		rapid.SampledFrom([]int{1, 2, 5, 16, 33, 64, 130, 4096, 4100}).Draw(t, "cols")
	if rows*cols > 1<<18 {
		rows = 7
	}
	split := rapid.SampledFrom([]int{1, 2, 3}).Draw(t, "outer")
	shapes := []array.Shape{{rows, cols}, {split, rows, cols}, {cols}, {rows, 1}, {1, 1}, {}, {split, 1, cols},
		{split, rows, 1}}
	float, dtypes := array.F32, []array.DType{array.F32, array.F32, array.BF16, array.F16}
	if rapid.Bool().Draw(t, "double") {
		float, dtypes = array.F64, []array.DType{array.F64, array.F64, array.F64, array.F32}
	}
	param := func(s array.Shape) *op.Tensor { return b.Param("", ir.Type{DType: float, Shape: s}) }
	values := []*op.Tensor{param(shapes[0]), param(shapes[1])}
	for range rapid.IntRange(0, 3).Draw(t, "params") {
		dtype := rapid.SampledFrom(dtypes).Draw(t, "param dtype")
		values = append(
			values,
			b.Param("", ir.Type{DType: dtype, Shape: rapid.SampledFrom(shapes).Draw(t, "shape")}),
		)
	}
	var truths []*op.Tensor
	one := func() *op.Tensor {
		return values[len(values)-1-rapid.IntRange(0, min(7, len(values)-1)).Draw(t, "value")]
	}
	for range rapid.IntRange(2, 24).Draw(t, "nodes") {
		x, y := one(), one()
		v := drawOp(t, b, x, y, &truths, split)
		if v != nil && v.Err() == nil && v.Shape().Len() <= 1<<19 {
			values = append(values, v)
		}
	}
	results := []*op.Tensor{values[len(values)-1]}
	for range rapid.IntRange(0, 3).Draw(t, "results") {
		if v := one(); v.Node() != nil {
			results = append(results, v)
		}
	}
	if n := len(truths); n > 0 && rapid.Bool().Draw(t, "truth") {
		results = append(results, truths[n-1])
	}
	f, err := b.Build(results...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// fits reports whether two values are broadcast together to something of their size.
func fits(x, y *op.Tensor) bool {
	xs, ys := x.Shape(), y.Shape()
	if x.DType() != y.DType() && x.DType() != array.Bool {
		return false
	}
	for i := 1; i <= min(len(xs), len(ys)); i++ {
		a, b := xs[len(xs)-i], ys[len(ys)-i]
		if a != b && a != 1 && b != 1 {
			return false
		}
	}
	return true
}

func drawOp(t *rapid.T, b *ir.Builder, x, y *op.Tensor, truths *[]*op.Tensor, split int) *op.Tensor {
	unary := []func(*op.Tensor) *op.Tensor{
		op.Exp,
		op.Tanh,
		op.Neg,
		op.Square,
		op.Abs,
		op.Sigmoid,
		op.ReLU,
		op.Erf,
		op.Log1p,
		op.Softplus,
		op.Floor,
		op.SiLU,
		op.Sqrt,
		op.Rsqrt,
		op.Reciprocal,
		op.Expm1,
		op.Log,
		func(x *op.Tensor) *op.Tensor { return op.GELU(x, "tanh") },
		func(x *op.Tensor) *op.Tensor { return op.GELU(x, "none") },
		func(x *op.Tensor) *op.Tensor { return op.AddScalar(x, 0.5) },
		func(x *op.Tensor) *op.Tensor { return op.MulScalar(x, -1.25) },
	}
	binary := []func(x, y *op.Tensor) *op.Tensor{op.Add, op.Sub, op.Mul, op.Div, op.Maximum, op.Minimum}
	compare := []func(x, y *op.Tensor) *op.Tensor{op.Less, op.Greater, op.LessEqual, op.GreaterEqual, op.Equal,
		op.NotEqual}
	switch rapid.IntRange(0, 17).Draw(t, "kind") {
	case 0, 1, 2:
		return rapid.SampledFrom(unary).Draw(t, "unary")(x)
	case 3, 4, 5:
		if fits(x, y) {
			return rapid.SampledFrom(binary).Draw(t, "binary")(x, y)
		}
	case 6:
		if len(x.Shape()) > 0 {
			folds := []func(x *op.Tensor, dims ...int) *op.Tensor{op.Sum, op.Mean, op.AMax, op.AMin}
			fold := rapid.SampledFrom(folds).Draw(t, "fold")
			return op.KeepDims(fold(x, -1), x, -1)
		}
	case 7:
		switch {
		case rapid.IntRange(0, 3).Draw(t, "all") == 0:
			return rapid.SampledFrom([]func(x *op.Tensor, dims ...int) *op.Tensor{op.Sum, op.Mean}).Draw(t, "total")(x)
		case len(x.Shape()) > 1:
			return op.Sum(x, 0)
		}
	case 8:
		if n := x.Shape().Len(); n%split == 0 {
			return op.Reshape(x, split, n/split)
		}
	case 9:
		if fits(x, y) {
			return op.Expand(x, op.Add(x, y).Shape()...)
		}
	case 10:
		if fits(x, y) {
			*truths = append(*truths, rapid.SampledFrom(compare).Draw(t, "compare")(x, y))
		}
	case 11:
		if k := len(*truths); k > 0 {
			c := (*truths)[k-1]
			if fits(c, x) && fits(x, y) && fits(c, y) {
				return op.Where(c, x, y)
			}
			return op.Cast(c, x.DType())
		}
	case 16, 17:
		if x.DType() == array.F64 {
			return op.Cast(x, rapid.SampledFrom([]array.DType{array.F32, array.F64}).Draw(t, "dtype"))
		}
		return op.Cast(x, rapid.SampledFrom([]array.DType{array.BF16, array.F16, array.F32}).Draw(t, "dtype"))
	case 12, 13, 14, 15:
		return drawMove(t, x, y)
	}
	return nil
}

// drawMove returns a slice, a half, a transposition, a join or the gradient of a cut.
func drawMove(t *rapid.T, x, y *op.Tensor) *op.Tensor {
	rank := len(x.Shape())
	if rank == 0 {
		return nil
	}
	dim := rapid.IntRange(0, rank-1).Draw(t, "dim")
	n := x.Dim(dim)
	switch rapid.IntRange(0, 5).Draw(t, "move") {
	case 0:
		if n > 1 {
			return op.Narrow(x, dim, n/3, n-n/4)
		}
	case 1:
		if n%2 == 0 {
			parts := op.Split(x, dim, n/2, n/2)
			return op.Sub(op.Exp(parts[0]), op.Mul(parts[1], parts[0]))
		}
	case 2:
		if rank == 3 {
			return op.Transpose(x, 1, 0, 2)
		}
	case 3:
		if x.Type().Equal(y.Type()) {
			return op.Concat([]*op.Tensor{x, y}, dim)
		}
	case 4:
		if n%2 == 0 {
			parts := op.Split(x, dim, n/2, n/2)
			return op.Concat([]*op.Tensor{op.Neg(parts[1]), op.Tanh(parts[0])}, dim)
		}
	case 5:
		if x.Type().Equal(y.Type()) {
			low, high, zero := make([]int, rank), make([]int, rank), make([]int, rank)
			low[dim], high[dim] = n, n
			return op.Add(op.Pad(x, zero, high, 0), op.Pad(op.Abs(y), low, zero, 0))
		}
	}
	return nil
}

// numbers returns arguments for a program: mostly ordinary, with zeros of both signs, infinities, NaN and
// denormals among them.
func numbers(f *ir.Func, seed uint64) []array.Array {
	rng := rand.New(rand.NewPCG(seed, 3))
	odd := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 1e-40, -1e-40, 5e-310, 1, 2}
	args := make([]array.Array, len(f.Params()))
	for i, p := range f.Params() {
		args[i] = array.New(p.DType(), p.Shape()...)
		for j := range args[i].Len() {
			x := rng.NormFloat64()
			if rng.IntN(200) == 0 {
				x = odd[rng.IntN(len(odd))]
			}
			args[i].Set(j, x)
		}
	}
	return args
}

// TestGroups: a program with loops has the bits of the program without, whatever is in it: as code, and as
// strips.
func TestGroups(t *testing.T) {
	t.Run("code", func(t *testing.T) {
		if !op.LoopsCompiled() {
			t.Skip("no code is generated on this machine")
		}
		testGroups(t, "code")
	})
	t.Run("strips", func(t *testing.T) {
		t.Setenv("GALLEY_JIT", "off")
		testGroups(t, "strips")
	})
}

func testGroups(t *testing.T, how string) {
	one, three := cpu.NewDevice(cpu.Config{Threads: 1}), cpu.NewDevice(cpu.Config{Threads: 3})
	defer one.Close()
	defer three.Close()
	loops := 0
	rapid.Check(t, func(rt *rapid.T) {
		f, err := pass.Optimize(randomLoops(rt))
		if err != nil {
			rt.Fatal(err)
		}
		g, _, err := pass.Groups(f, pass.GroupConfig{Always: true})
		if err != nil {
			rt.Fatal(err)
		}
		if err := ir.Check(g); err != nil {
			rt.Fatalf("%v\n%v\n%v", err, f, g)
		}
		for _, n := range g.Nodes() {
			if strings.HasPrefix(op.FusedHow(n.Op()), how) {
				loops++
			}
		}
		args := numbers(f, 1)
		want := runAll(rt, one, f, args)
		for _, d := range []*cpu.Device{one, three} {
			for i, got := range runAll(rt, d, g, args) {
				sameBits(rt, got, want[i], i, f, g)
			}
		}
	})
	if !t.Failed() && loops == 0 {
		t.Error("no program had such a loop")
	}
}

func runAll(t rapid.TB, d *cpu.Device, f *ir.Func, args []array.Array) []array.Array {
	e, err := d.Compile(f, cpu.Options{NoFuse: true})
	if err != nil {
		t.Fatal(err)
	}
	into := make([]array.Array, len(f.Results()))
	memory := make([][]byte, len(into))
	for i, v := range f.Results() { // with something behind it that must stay
		memory[i] = bytes.Repeat([]byte{0xA5}, v.Type().Bytes()+64)
		into[i] = array.View(v.DType(), v.Shape(), memory[i][:v.Type().Bytes()])
	}
	out, err := e.RunInto(args, into)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range f.Results() {
		if !bytes.Equal(memory[i][v.Type().Bytes():], bytes.Repeat([]byte{0xA5}, 64)) {
			t.Fatalf("result %d is written beyond its end\n%v", i, f)
		}
	}
	return out
}

// sameBits allows any NaN for a NaN: which one it is depends on the order of operands.
func sameBits(t rapid.TB, got, want array.Array, result int, f, g *ir.Func) {
	if want.DType() == array.Bool {
		if string(got.Bytes()) != string(want.Bytes()) {
			t.Fatalf("result %d: got %v, want %v\n%v\n%v", result, got, want, f, g)
		}
		return
	}
	for i := range want.Len() {
		x, y := got.At(i), want.At(i)
		if math.Float64bits(x) != math.Float64bits(y) && (x == x || y == y) {
			t.Fatalf("result %d, element %d: got %g, want %g\n%v\n%v", result, i, x, y, f, g)
		}
	}
}

// TestDoubleLoops: floats of 64 bits are in loops, with folds, sums of columns and truths, and those of 32
// bits are in none of them.
func TestDoubleLoops(t *testing.T) {
	text := `func norm(%0: f64[64,128], %1: f64[128], %2: f32[64,128]) {
  %3 = mean{dims=[1] count=128} %0
  %4 = reshape{shape=[64,1]} %3
  %5 = sub %0 %4
  %6 = tanh %5
  %7 = mul %6 %1
  %8 = less %7 %0
  %9 = where %8 %7 %5
  %10 = sum{dims=[0]} %9
  %11 = cast{dtype=f64} %2
  %12 = add %11 %9
  return %9 %10 %12
}
`
	f, err := ir.Parse(text, op.Lookup)
	if err != nil {
		t.Fatal(err)
	}
	g, _, err := pass.Groups(f, pass.GroupConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range g.Nodes() {
		names = append(names, n.Op().Name())
		if how := op.FusedHow(n.Op()); n.Op().Name() == "fused" && op.LoopsCompiled() &&
			!strings.HasPrefix(how, "code") {
			t.Errorf("a loop runs as %s", how)
		}
	}
	if want := "cast fused"; op.LoopsCompiled() && strings.Join(names, " ") != want {
		t.Errorf("got %v, want %s\n%v", names, want, g)
	}
}

// TestGroupsKeepMeetings: what devices do together stays, in its order, though a device needs nothing of it.
func TestGroupsKeepMeetings(t *testing.T) {
	text := `func meet(%0: f32[64,64], %1: f32[64,64]) {
  %2 = exp %0
  %3 = all_reduce{mesh="x=2" axes="x" kind="sum"} %0
  %4 = neg %2
  %5 = add %4 %1
  %6 = all_reduce{mesh="x=2" axes="x" kind="sum"} %1
  %7 = tanh %2
  %8 = mul %7 %5
  return %8
}
`
	f, err := ir.Parse(text, op.Lookup)
	if err != nil {
		t.Fatal(err)
	}
	g, _, err := pass.Groups(f, pass.GroupConfig{Always: true})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	meet := []*ir.Value{}
	for _, n := range g.Nodes() {
		names = append(names, n.Op().Name())
		if n.Op().Name() == "all_reduce" {
			meet = append(meet, n.In()[0])
		}
	}
	if len(meet) != 2 || meet[0] != g.Params()[0] || meet[1] != g.Params()[1] || len(names) != 3 {
		t.Errorf("got %v of\n%v", names, g)
	}
}

// TestLabel names a loop by what is in it.
func TestLabel(t *testing.T) {
	f, err := ir.Parse(
		"func f(%0: f32[64,64]) {\n%1 = exp %0\n%2 = sum{dims=[1]} %1\n%3 = reshape{shape=[64,1]} %2\n"+
			"%4 = div %1 %3\nreturn %4\n}",
		op.Lookup,
	)
	if err != nil {
		t.Fatal(err)
	}
	g, _, err := pass.Groups(f, pass.GroupConfig{Always: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := op.Label(g.Nodes()[0].Op()), "fused(exp sum div)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestFusedText: a body that cannot be is an error that names its line.
func TestFusedText(t *testing.T) {
	for body, want := range map[string]string{
		`func b(%0: f32[4]) {\n %1 = explode %0\n return %1\n}`:       `line 2, column 14: no op is called`,
		`func b(%0: f32[4]) {\n %1 = exp %9\n return %1\n}`:           `line 2, column 11: %9 is used before it is made`,
		`func b(%0: f32[4], %1: f32[4]) {\n return %0\n}`:             `takes 2 operands: got 1`,
		`func b(%0: f32[4]) {\n`:                                      `no closing brace`,
		`func b(%0: f32[4]) {\n %1 = matmul %0 %0\n return %1\n}`:     `matmul`,
		`func b(%0: f32[4]) {\n %1 = fused{body=\"\"} %0\n return\n}`: `line 2`,
	} {
		_, err := ir.Parse("func f(%0: f32[4]) {\n%1 = fused{body=\""+body+"\"} %0\nreturn %1\n}", op.Lookup)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
}

// TestHotTruths: one_hot writes the truths that it was to be cast to, and integers where they are read.
func TestHotTruths(t *testing.T) {
	for _, c := range []struct {
		both bool
		want int
	}{{false, 1}, {true, 2}} {
		b := ir.NewBuilder("main")
		labels := b.Param("labels", ir.Type{DType: array.I32, Shape: array.Shape{64}})
		x := b.Param("x", ir.Type{DType: array.F32, Shape: array.Shape{64, 100}})
		hot := op.OneHot(labels, 100)
		picked := op.Sum(op.Where(op.Cast(hot, array.Bool), x, op.MulScalar(x, 0.5)), 1)
		results := []*op.Tensor{picked}
		if c.both {
			results = append(results, hot)
		}
		f, err := b.Build(results...)
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := pass.Groups(f, pass.GroupConfig{})
		if err != nil {
			t.Fatal(err)
		}
		hots := 0
		for _, n := range out.Nodes() {
			switch n.Op().Name() {
			case "one_hot":
				hots++
			case "cast":
				t.Errorf("a cast is left:\n%v", out)
			}
		}
		if hots != c.want {
			t.Errorf("got %d one_hot, want %d:\n%v", hots, c.want, out)
		}
	}
}

// TestTotals: a sum of all elements is part of the loop that makes them, however many there are.
func TestTotals(t *testing.T) {
	for _, shape := range []array.Shape{{40000}, {300, 257}, {17, 4096}, {9, 8192}} {
		b := ir.NewBuilder("loss")
		x := b.Param("x", ir.Type{DType: array.F32, Shape: shape})
		y := b.Param("y", ir.Type{DType: array.F32, Shape: shape[len(shape)-1:]})
		if shape[len(shape)-1]%4096 != 0 {
			y = b.Param("z", x.Type())
		}
		d := op.Square(op.Sub(x, y))
		f, err := b.Build(op.Mean(d), op.Sum(d))
		if err != nil {
			t.Fatal(err)
		}
		g, _, err := pass.Groups(f, pass.GroupConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if len(g.Nodes()) != 1 {
			t.Errorf("%v: got\n%v", shape, g)
		}
	}
}

// TestCosts: what is cheap to compute is computed again where memory is slow, and stored where it is fast.
func TestCosts(t *testing.T) {
	if !op.LoopsCompiled() {
		t.Skip("no code is generated on this machine")
	}
	defer pass.SetCosts(pass.UsualCosts)
	text := `func again(%0: f32[512,1024], %1: f32[1024,1024]) {
  %2 = exp %0
  %3 = add %2 %0
  %4 = matmul %3 %1
  %5 = mul %2 %4
  %6 = neg %5
  return %6
}
`
	f, err := ir.Parse(text, op.Lookup)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		far  float64
		want string
	}{{1, "again"}, {0.0001, ""}} {
		pass.SetCosts(pass.Costs{Far: c.far, Near: c.far, Instr: 0.015})
		_, g, err := pass.Groups(f, pass.GroupConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if why := g.Why(); strings.Contains(why, "computed again") != (c.want != "") {
			t.Errorf("%g ns a byte:\n%s", c.far, why)
		}
	}
}
