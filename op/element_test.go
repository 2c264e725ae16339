package op_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

func floats64(xs ...float64) array.Array { return array.FromSlice(xs, len(xs)) }

// sameNumbers compares elements; NaN is the same as NaN, and zeros are told apart by sign.
func sameNumbers(t *testing.T, what string, got, want array.Array) {
	t.Helper()
	if got.DType() != want.DType() || !got.Shape().Equal(want.Shape()) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
	for i := range want.Len() {
		g, w := got.At(i), want.At(i)
		if math.Float64bits(g) != math.Float64bits(w) && !(g != g && w != w) {
			t.Errorf("%s: got %v, want %v", what, got, want)
			return
		}
	}
}

func TestSpecialValues(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	x := floats64(nan, inf, -inf, 2.5, -2.5, -3)
	type unary = func(*op.Tensor) *op.Tensor
	for name, c := range map[string]struct {
		f    unary
		want []float64
	}{
		"relu":  {op.ReLU, []float64{nan, inf, 0, 2.5, 0, 0}},
		"sign":  {op.Sign, []float64{0, 1, -1, 1, -1, -1}},
		"round": {op.Round, []float64{nan, inf, -inf, 2, -2, -3}},
		"floor": {op.Floor, []float64{nan, inf, -inf, 2, -3, -3}},
		"ceil":  {op.Ceil, []float64{nan, inf, -inf, 3, -2, -3}},
		"abs":   {op.Abs, []float64{nan, inf, inf, 2.5, 2.5, 3}},
		"pow0":  {func(x *op.Tensor) *op.Tensor { return op.Pow(x, 0) }, []float64{1, 1, 1, 1, 1, 1}},
		"pow3": {func(x *op.Tensor) *op.Tensor { return op.Pow(x, 3) },
			[]float64{nan, inf, -inf, 15.625, -15.625, -27}},
		"pow4": {func(x *op.Tensor) *op.Tensor { return op.Pow(x, 4) },
			[]float64{nan, inf, inf, 39.0625, 39.0625, 81}},
		"clamp": {func(x *op.Tensor) *op.Tensor { return op.Clamp(x, -2, 1) },
			[]float64{nan, 1, -2, 1, -2, -2}},
		"clamp below": {func(x *op.Tensor) *op.Tensor { return op.Clamp(x, -inf, 0.5) },
			[]float64{nan, 0.5, -inf, 0.5, -2.5, -3}},
		"maximum": {func(x *op.Tensor) *op.Tensor { return op.Maximum(x, op.Const(x, 1)) },
			[]float64{nan, inf, 1, 2.5, 1, 1}},
		"minimum": {func(x *op.Tensor) *op.Tensor { return op.Minimum(op.Const(x, 1), x) },
			[]float64{nan, 1, -inf, 1, -2.5, -3}},
	} {
		s := device(t, 1).NewSession()
		sameNumbers(t, name, read(t, c.f(s.Tensor(x))), floats64(c.want...))
	}
	s := device(t, 1).NewSession()
	finite := array.FromSlice([]bool{false, false, false, true, true, true}, 6)
	sameNumbers(t, "is_finite", read(t, op.IsFinite(s.Tensor(x))), finite)
}

// TestKinks: the gradients where functions have corners are those of PyTorch.
func TestKinks(t *testing.T) {
	type unary = func(*op.Tensor) *op.Tensor
	x := floats64(math.NaN(), 0, 1, -1)
	for name, c := range map[string]struct {
		f    unary
		want []float64
	}{
		"relu":  {op.ReLU, []float64{1, 0, 1, 0}},
		"abs":   {op.Abs, []float64{0, 0, 1, -1}},
		"clamp": {func(x *op.Tensor) *op.Tensor { return op.Clamp(x, 0, 1) }, []float64{0, 1, 1, 0}},
		"maximum": {func(x *op.Tensor) *op.Tensor { return op.Maximum(x, op.Const(x, 0)) },
			[]float64{1, 0.5, 1, 0}},
		"minimum": {func(x *op.Tensor) *op.Tensor { return op.Minimum(x, op.Const(x, 0)) },
			[]float64{1, 0.5, 0, 1}},
		"itself": {func(x *op.Tensor) *op.Tensor { return op.Maximum(x, x) }, []float64{2, 1, 1, 1}},
		"pow0":   {func(x *op.Tensor) *op.Tensor { return op.Pow(x, 0) }, []float64{0, 0, 0, 0}},
		"sign":   {op.Sign, []float64{0, 0, 0, 0}},
	} {
		v := device(t, 1).NewSession().Tensor(x).Track()
		g := op.Grad([]*op.Tensor{c.f(v)}, nil, []*op.Tensor{v})[0]
		for i, w := range c.want {
			if got := read(t, g).At(i); got != w {
				t.Errorf("%s at %v: gradient %v, want %v", name, x.At(i), got, w)
			}
		}
	}
}

func TestIntegers(t *testing.T) {
	s := device(t, 1).NewSession()
	x, y := s.Tensor(array.FromSlice([]int64{7, -7, 7, -7, 5, 6},
		6)), s.Tensor(array.FromSlice([]int64{3, 3, -3, -3, 0, 3}, 6))
	for name, c := range map[string]struct {
		got  *op.Tensor
		want []int64
	}{
		"sub":     {op.Sub(x, y), []int64{4, -10, 10, -4, 5, 3}},
		"div":     {op.Div(x, y), []int64{2, -2, -2, 2, -1, 2}},
		"mod":     {op.Mod(x, y), []int64{1, 2, -2, -1, 5, 0}},
		"maximum": {op.Maximum(x, y), []int64{7, 3, 7, -3, 5, 6}},
		"minimum": {op.Minimum(x, y), []int64{3, -7, -3, -7, 0, 3}},
		"abs":     {op.Abs(x), []int64{7, 7, 7, 7, 5, 6}},
		"neg":     {op.Neg(x), []int64{-7, 7, -7, 7, -5, -6}},
		"square":  {op.Square(y), []int64{9, 9, 9, 9, 0, 9}},
		"sign":    {op.Sign(y), []int64{1, 1, -1, -1, 0, 1}},
	} {
		sameNumbers(t, name, read(t, c.got), array.FromSlice(c.want, 6))
	}
	u := s.Tensor(array.FromSlice([]uint8{0, 5, 251}, 3))
	sameNumbers(t, "abs of bytes", read(t, op.Abs(u)), array.FromSlice([]uint8{0, 5, 251}, 3))
	sameNumbers(t, "division of bytes", read(t, op.Div(u, op.Const(u, 0))),
		array.FromSlice([]uint8{255, 255, 255}, 3))
}

// TestTruth compares numbers of every dtype, and truth values with each other.
func TestTruth(t *testing.T) {
	s := device(t, 1).NewSession()
	for _, dtype := range array.DTypes() {
		x := op.Cast(s.Tensor(floats64(0, 0, 1, 1)), dtype)
		y := op.Cast(s.Tensor(floats64(0, 1, 0, 1)), dtype)
		for i, c := range []*op.Tensor{
			op.Equal(x, y), op.NotEqual(x, y), op.Less(x, y), op.LessEqual(x, y), op.Greater(x, y), op.GreaterEqual(x,
				y),
		} {
			want := []string{"1001", "0110", "0100", "1101", "0010", "1011"}[i]
			if got := truths(t, c); got != want {
				t.Errorf("%v comparison %d: got %s, want %s", dtype, i, got, want)
			}
		}
		picked := op.Where(op.Less(x, y), x, op.Const(y, 1))
		sameNumbers(t, fmt.Sprint("where of ", dtype), read(t, op.Cast(picked, array.F64)), floats64(1, 0, 1, 1))
	}
	x, y := s.Tensor(array.FromSlice([]bool{false, false, true, true},
		4)), s.Tensor(array.FromSlice([]bool{false, true, false, true}, 4))
	for i, c := range []*op.Tensor{op.LogicalAnd(x, y), op.LogicalOr(x, y), op.LogicalXor(x, y),
		op.LogicalNot(x)} {
		if got, want := truths(t, c), []string{"0001", "0111", "0110", "1100"}[i]; got != want {
			t.Errorf("logic %d: got %s, want %s", i, got, want)
		}
	}
	n := s.Tensor(floats64(math.NaN()))
	for i, c := range []*op.Tensor{op.Equal(n, n), op.NotEqual(n, n), op.LessEqual(n, n),
		op.GreaterEqual(n, n)} {
		if got, want := truths(t, c), []string{"0", "1", "0", "0"}[i]; got != want {
			t.Errorf("NaN comparison %d: got %s, want %s", i, got, want)
		}
	}
}

func truths(t *testing.T, x *op.Tensor) string {
	t.Helper()
	a := read(t, x)
	if a.DType() != array.Bool {
		t.Fatalf("got %v, want truth values", a)
	}
	var b strings.Builder
	for i := range a.Len() {
		fmt.Fprint(&b, a.At(i))
	}
	return b.String()
}

func TestEmptyOperands(t *testing.T) {
	s := device(t, 2).NewSession()
	x := s.Tensor(array.New(array.F32, 0, 3)).Track()
	y := op.Add(op.GELU(op.SiLU(x), "tanh"), op.SwiGLU(x, x))
	y = op.Where(op.Less(x, y), op.Dropout(y, op.Key{}, 0.5), op.Maximum(x, op.Const(x, 0)))
	y = op.Triu(op.Pow(op.Clamp(y, 0, 1), 2.5), 0)
	for _, v := range append(op.Grad([]*op.Tensor{y}, nil, []*op.Tensor{x}), y,
		op.Normal(s, op.Key{}, array.F32, array.Shape{0, 3})) {
		if a := read(t, v); !a.Shape().Equal(array.Shape{0, 3}) {
			t.Errorf("got %v", a)
		}
	}
	if a := read(t, op.OneHot(s.Tensor(array.New(array.I32, 0)), 3)); !a.Shape().Equal(array.Shape{0, 3}) {
		t.Errorf("one-hot of nothing: got %v", a)
	}
	if a := read(t, op.Iota(s, array.I32, array.Shape{2, 0}, -1)); a.Len() != 0 {
		t.Errorf("iota of nothing: got %v", a)
	}
}

func TestElementMistakes(t *testing.T) {
	s := device(t, 1).NewSession()
	x, i, b := s.Tensor(array.New(array.F32, 2, 3)), s.Tensor(array.New(array.I32, 2,
		3)), s.Tensor(array.New(array.Bool, 2, 3))
	for want, y := range map[string]*op.Tensor{
		"log: want a float operand":               op.Log(i),
		"neg: want numbers":                       op.Neg(b),
		"sub: operands differ in dtype":           op.Sub(x, i),
		"div: cannot broadcast":                   op.Div(x, s.Tensor(array.New(array.F32, 2))),
		"remainder: want integers":                op.Mod(x, x),
		"logical_and: want truth values":          op.LogicalAnd(b, i),
		"logical_not: want truth values":          op.LogicalNot(x),
		"where: want a condition of truth values": op.Where(i, x, x),
		"clamp: bounds are out of order":          op.Clamp(x, 1, 0),
		"gelu: approximate is \"erf\"":            op.GELU(x, "erf"),
		"tril: want a matrix":                     op.Tril(s.Tensor(array.New(array.F32, 2)), 0),
		"one_hot: want indices":                   op.OneHot(x, 3),
		"one_hot: numClasses is 0":                op.OneHot(i, 0),
		"swiglu: operands differ in shape":        op.SwiGLU(x, s.Tensor(array.New(array.F32, 3))),
		"iota: dim 2 is not a dim of [2,3]":       op.Iota(s, array.I32, array.Shape{2, 3}, 2),
		"uniform: want a float dtype":             op.Uniform(s, op.Key{}, array.I32, array.Shape{2}),
		"normal: shape [-1] is not valid":         op.Normal(s, op.Key{}, array.F32, array.Shape{-1}),
		"normal: want the step as an i64 scalar":  op.NormalAt(i, op.Key{}, array.F32, array.Shape{2}),
		"bernoulli: probability is -0.5":          op.Dropout(x, op.Key{}, 1.5),
		"equal: operands differ in dtype":         op.Equal(x, b),
		"maximum: want numbers":                   op.Maximum(b, b),
		"is_finite: want a float operand":         op.IsFinite(i),
		"tanh: want a float operand: got i32[2,3]": op.Dropout(op.SwiGLU(op.Tril(op.Tanh(i), 1), x), op.Key{},
			0.5),
		"sqrt: want a float operand: got bool[2,3]": op.AddScalar(op.MulScalar(op.Sqrt(b), 2), 1),
	} {
		if y.Err() == nil || !strings.Contains(y.Err().Error(), want) {
			t.Errorf("got %v, want %q", y.Err(), want)
		}
	}
}

func TestOneHotOutOfRange(t *testing.T) {
	s := device(t, 1).NewSession()
	got := read(t, op.OneHot(s.Tensor(array.FromSlice([]int32{2, -1, 3}, 3)), 3))
	sameNumbers(t, "one-hot", got, array.FromSlice([]int64{0, 0, 1, 0, 0, 0, 0, 0, 0}, 3, 3))
}

func TestTriangles(t *testing.T) {
	s := device(t, 1).NewSession()
	x := op.AddScalar(op.Iota(s, array.I32, array.Shape{2, 2, 3}, 2), 1)
	for d, want := range map[int][]int32{
		-2: {0, 0, 0, 0, 0, 0}, -1: {0, 0, 0, 1, 0, 0}, 0: {1, 0, 0, 1, 2, 0}, 1: {1, 2, 0, 1, 2, 3}, 9: {1, 2, 3,
			1, 2, 3},
	} {
		low := read(t, op.Tril(x, d))
		sameNumbers(t, fmt.Sprint("tril ", d), low, array.FromSlice(append(want, want...), 2, 2, 3))
		sum := read(t, op.Add(op.Tril(x, d), op.Triu(x, d+1)))
		sameNumbers(t, fmt.Sprint("tril and triu ", d), sum, read(t, x))
	}
}

// TestDrawsDependOnIndex: a random tensor is the same whatever its shape, and differs by every part of its
// key.
func TestDrawsDependOnIndex(t *testing.T) {
	s := device(t, 2).NewSession()
	key := op.Key{Seed: 3, Stream: 4}
	flat, square := array.Shape{1 << 16}, array.Shape{1 << 8, 1 << 8}
	base := read(t, op.Uniform(s, key, array.F32, flat))
	sameNumbers(t, "other shape", read(t, op.Uniform(s, key, array.F32, square)).Reshape(flat...), base)
	sameNumbers(t, "beginning", read(t, op.Uniform(s, key, array.F32, array.Shape{100})), base.Rows(0, 100))
	at := func(n int64) *op.Tensor { return s.Tensor(array.Scalar(n)) }
	sameNumbers(t, "step 0", read(t, op.UniformAt(at(0), key, array.F32, flat)), base)
	for what, x := range map[string]*op.Tensor{
		"seed":   op.Uniform(s, op.Key{Seed: 4, Stream: 4}, array.F32, flat),
		"stream": op.Uniform(s, op.Key{Seed: 3, Stream: 3}, array.F32, flat),
		"swap":   op.Uniform(s, op.Key{Seed: 4, Stream: 3}, array.F32, flat),
		"step":   op.UniformAt(at(1), key, array.F32, flat),
	} {
		if d := correlation(read(t, x), base); math.Abs(d) > 0.02 {
			t.Errorf("another %s gives correlated numbers: %v", what, d)
		}
	}
	for _, dtype := range []array.DType{array.BF16, array.F16, array.F32, array.F64} {
		mean, deviation := moments(read(t, op.Normal(s, key, dtype, flat)))
		if math.Abs(mean) > 0.02 || math.Abs(deviation-1) > 0.02 {
			t.Errorf("normal %v: mean %v, deviation %v", dtype, mean, deviation)
		}
		for _, u := range read(t, op.Uniform(s, key, dtype, flat)).Float64s() {
			if u < 0 || u >= 1 {
				t.Fatalf("uniform %v: got %v", dtype, u)
			}
		}
	}
}

func moments(a array.Array) (mean, deviation float64) {
	n := float64(a.Len())
	for _, x := range a.Float64s() {
		mean += x / n
	}
	for _, x := range a.Float64s() {
		deviation += (x - mean) * (x - mean) / n
	}
	return mean, math.Sqrt(deviation)
}

func correlation(a, b array.Array) float64 {
	ma, sa := moments(a)
	mb, sb := moments(b)
	c := 0.0
	for i := range a.Len() {
		c += (a.At(i) - ma) * (b.At(i) - mb) / (sa * sb)
	}
	return c / float64(a.Len())
}

// TestDropout: what is kept is scaled, and its gradient has the same mask.
func TestDropout(t *testing.T) {
	s := device(t, 2).NewSession()
	x := op.Full(s, array.F64, array.Shape{100, 100}, 3).Track()
	key := op.Key{Seed: 1}
	y := op.Dropout(x, key, 0.25)
	g := read(t, op.Grad([]*op.Tensor{y}, nil, []*op.Tensor{x})[0])
	kept := 0
	for i, v := range read(t, y).Float64s() {
		if v != 3*g.At(i) || g.At(i) != 0 && g.At(i) != 1/0.75 {
			t.Fatalf("element %d: got %v with gradient %v", i, v, g.At(i))
		}
		if v != 0 {
			kept++
		}
	}
	if math.Abs(float64(kept)-7500) > 200 {
		t.Errorf("kept %d of 10000, want about 7500", kept)
	}
	if op.Dropout(x, key, 0) != x {
		t.Error("at rate 0 it is not the identity")
	}
	if _, d := moments(read(t, op.Dropout(x, key, 1))); d != 0 {
		t.Error("at rate 1 something is kept")
	}
}

// TestDropoutSteps: one compiled program has another mask at each step, and the same at the same step.
func TestDropoutSteps(t *testing.T) {
	d := device(t, 2)
	b := ir.NewBuilder("main")
	x, at := b.Param("x", op.Type{DType: array.F32, Shape: array.Shape{64}}), b.Param("step",
		op.Type{DType: array.I64})
	f, err := b.Build(op.DropoutAt(x, at, op.Key{Seed: 1}, 0.5))
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Compile(f, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, n := range []int64{1, 2, 1} {
		got, err := e.Run([]array.Array{read(t, op.Full(d.NewSession(), array.F32, array.Shape{64}, 1)),
			array.Scalar(n)})
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, fmt.Sprint(got[0].Float64s()))
	}
	if texts[0] == texts[1] || texts[0] != texts[2] {
		t.Errorf("masks at steps 1, 2, 1:\n%s", strings.Join(texts, "\n"))
	}
}
