package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/internal/lane"
)

// formula is a kernel of one or two operands beside the list of instructions for a lane.
type formula struct {
	name   string
	one    func(t *table32) func(dst, x []float32)
	two    func(t *table32) func(dst, x, y []float32)
	inputs int
	code   func(b *lane.Builder, in []lane.Arg) lane.Arg
}

func oneLane(name string, f func(t *table32) func(dst, x []float32),
	code func(b *lane.Builder, x lane.Arg) lane.Arg) formula {
	return formula{name: name, one: f, inputs: 1,
		code: func(b *lane.Builder, in []lane.Arg) lane.Arg { return code(b, in[0]) }}
}

func twoLanes(name string, f func(t *table32) func(dst, x, y []float32),
	code func(b *lane.Builder, x, y lane.Arg) lane.Arg) formula {
	return formula{name: name, two: f, inputs: 2,
		code: func(b *lane.Builder, in []lane.Arg) lane.Arg { return code(b, in[0], in[1]) }}
}

func formulas() []formula {
	return []formula{
		oneLane("exp", func(t *table32) func(_, _ []float32) { return t.exp }, (*lane.Builder).Exp),
		oneLane("log", func(t *table32) func(_, _ []float32) { return t.log }, (*lane.Builder).Log),
		oneLane("tanh", func(t *table32) func(_, _ []float32) { return t.tanh }, (*lane.Builder).Tanh),
		oneLane("erf", func(t *table32) func(_, _ []float32) { return t.erf }, (*lane.Builder).Erf),
		oneLane("expm1", func(t *table32) func(_, _ []float32) { return t.expm1 }, (*lane.Builder).Expm1),
		oneLane("log1p", func(t *table32) func(_, _ []float32) { return t.log1p }, (*lane.Builder).Log1p),
		oneLane("softplus", func(t *table32) func(_, _ []float32) { return t.softplus }, (*lane.Builder).Softplus),
		oneLane("sigmoid", func(t *table32) func(_, _ []float32) { return t.sigmoid }, (*lane.Builder).Sigmoid),
		oneLane("silu", func(t *table32) func(_, _ []float32) { return t.silu }, (*lane.Builder).SiLU),
		oneLane("gelu", func(t *table32) func(_, _ []float32) { return t.gelu }, (*lane.Builder).GELU),
		oneLane("geluTanh", func(t *table32) func(_, _ []float32) { return t.geluTanh }, (*lane.Builder).GELUTanh),
		oneLane("rsqrt", func(t *table32) func(_, _ []float32) { return t.rsqrt }, (*lane.Builder).Rsqrt),
		oneLane("relu", func(t *table32) func(_, _ []float32) { return t.relu }, (*lane.Builder).ReLU),
		oneLane("neg", func(t *table32) func(_, _ []float32) { return t.neg }, (*lane.Builder).Neg),
		oneLane("abs", func(t *table32) func(_, _ []float32) { return t.abs }, (*lane.Builder).Abs),
		twoLanes("max", func(t *table32) func(_, _, _ []float32) { return t.max }, (*lane.Builder).Max),
		twoLanes("min", func(t *table32) func(_, _, _ []float32) { return t.min }, (*lane.Builder).Min),
		twoLanes("div", func(t *table32) func(_, _, _ []float32) { return t.div }, (*lane.Builder).Div),
		twoLanes("geluGrad", func(t *table32) func(_, _, _ []float32) { return t.geluGrad },
			(*lane.Builder).GELUGrad),
		twoLanes("geluTanhGrad", func(t *table32) func(_, _, _ []float32) { return t.geluTanhGrad },
			(*lane.Builder).GELUTanhGrad),
		twoLanes("siluGrad", func(t *table32) func(_, _, _ []float32) { return t.siluGrad },
			(*lane.Builder).SiLUGrad),
		twoLanes("swiGLU", func(t *table32) func(_, _, _ []float32) { return t.swiGLU }, (*lane.Builder).SwiGLU),
	}
}

// TestLanes holds the lists of instructions to the assembly: every bit, but for which NaN it is.
func TestLanes(t *testing.T) {
	for _, set := range vectorTables() {
		for _, f := range formulas() {
			t.Run(set.name+"/"+f.name, func(t *testing.T) { checkLane(t, &set.table, set.name == "AVX512", f) })
		}
	}
}

func checkLane(t *testing.T, table *table32, wide bool, f formula) {
	xs, ys := laneInputs(1), laneInputs(2)
	got := make([]float32, len(xs))
	if f.one != nil {
		f.one(table)(got, xs)
	} else {
		f.two(table)(got, xs, ys)
	}
	b := lane.NewBuilder(wide, f.inputs)
	args := []lane.Arg{b.In(0), b.In(1)}[:f.inputs]
	result := f.code(b, args)
	for i, x := range xs {
		in := []uint32{math.Float32bits(x), math.Float32bits(ys[i])}[:f.inputs]
		want := math.Float32frombits(lane.Run(b.Code, in, result))
		if math.Float32bits(got[i]) != math.Float32bits(want) && (got[i] == got[i] || want == want) {
			t.Fatalf("of %g and %g: got %g (%08x), want %g (%08x)", x, ys[i], got[i], math.Float32bits(got[i]), want,
				math.Float32bits(want))
		}
	}
}

// laneInputs returns numbers of every size and those at the edges.
func laneInputs(seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 7))
	inf := float32(math.Inf(1))
	xs := []float32{0, float32(math.Copysign(0, -1)), 1, -1, inf, -inf, float32(math.NaN()), math.MaxFloat32,
		math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 1.17549435e-38, -87.3, -87.30001, 88.8, 89}
	for range 3000 {
		xs = append(xs, float32(rng.NormFloat64()), float32(20*rng.NormFloat64()),
			math.Float32frombits(rng.Uint32()))
	}
	return xs
}

// doubles is the functions of float64 beside their lists of instructions and the library's.
var doubles = []struct {
	name  string
	table func(t *table64) func(dst, x []float64)
	f     func(dst, x []float64)
	code  func(d lane.Double, x lane.Arg) lane.Arg
	want  func(float64) float64
}{
	{"exp", func(t *table64) func(_, _ []float64) { return t.exp }, Exp[float64], lane.Double.Exp, math.Exp},
	{"log", func(t *table64) func(_, _ []float64) { return t.log }, Log[float64], lane.Double.Log, math.Log},
	{"tanh", func(t *table64) func(_, _ []float64) { return t.tanh }, Tanh[float64], lane.Double.Tanh,
		math.Tanh},
	{"sigmoid", func(t *table64) func(_, _ []float64) { return t.sigmoid }, Sigmoid[float64],
		lane.Double.Sigmoid, sigmoid64},
	{"erf", func(t *table64) func(_, _ []float64) { return t.erf }, Erf[float64], lane.Double.Erf, math.Erf},
	{"sin", func(t *table64) func(_, _ []float64) { return t.sin }, Sin[float64], lane.Double.Sin, math.Sin},
	{"cos", func(t *table64) func(_, _ []float64) { return t.cos }, Cos[float64], lane.Double.Cos, math.Cos},
}

// doubleInputs is numbers of every size and those at the edges.
func doubleInputs() []float64 {
	rng := rand.New(rand.NewPCG(5, 7))
	xs := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64,
		5e-324, -5e-324, 0x1p-1022, 709.78, 709.79, -745.1, -745.2, -708.5, 20, 6, 0.75, mostTurn, mostTurn + 1,
		math.Pi / 2, 1e6 * math.Pi / 2}
	for range 3000 {
		xs = append(xs, rng.NormFloat64(), 20*rng.NormFloat64(), 1e5*rng.NormFloat64(), 700*rng.NormFloat64(),
			math.Float64frombits(rng.Uint64()))
	}
	return xs
}

// TestDoubleLanes holds the assembly of float64 to the lists of instructions: every bit, but for which NaN.
func TestDoubleLanes(t *testing.T) {
	if mostTurn != lane.MostTurn {
		t.Errorf("vectors have sines up to %d, formulas up to %d", mostTurn, lane.MostTurn)
	}
	xs := doubleInputs()
	got := make([]float64, len(xs))
	for _, set := range vectorTables() {
		for _, f := range doubles {
			d := lane.NewDouble(set.name == "AVX512", 1)
			result := f.code(d, d.In(0))
			f.table(&set.doubles)(got, xs)
			for i, x := range xs {
				want := math.Float64frombits(lane.RunDouble(d.Code(), []uint64{math.Float64bits(x)}, result))
				if math.Float64bits(got[i]) != math.Float64bits(want) && (got[i] == got[i] || want == want) {
					t.Fatalf("%s, %s of %g: got %g, want %g", set.name, f.name, x, got[i], want)
				}
			}
		}
	}
}

// TestDoubles holds functions of float64 to the library's, and elements to themselves at another place.
func TestDoubles(t *testing.T) {
	xs := doubleInputs()
	eachTable(t, func(t *testing.T) {
		for _, f := range doubles {
			ys := make([]float64, len(xs))
			f.f(ys, xs)
			for i, x := range xs {
				if f.name == "log" && x != 0 && math.Abs(x) < 0x1p-1022 {
					continue // the library's assembly takes denormals for normal numbers
				}
				want := f.want(x)
				near := 1e-15 * math.Abs(want)
				if f.name == "sin" || f.name == "cos" { // the library's lose digits where they are near zero
					near = max(near, 3e-15*min(math.Abs(x), 1))
				}
				same := math.Abs(ys[i]-want) <= near+5e-324 || ys[i] == want || ys[i] != ys[i] && want != want
				if !same || want == 0 && math.Signbit(ys[i]) != math.Signbit(want) {
					t.Fatalf("%s %g: got %.17g, want %.17g", f.name, x, ys[i], want)
				}
			}
			for n := range 20 { // over itself, with and without a rest
				at := append([]float64(nil), xs[30:30+n]...)
				f.f(at, at)
				for i, y := range at {
					if math.Float64bits(y) != math.Float64bits(ys[30+i]) && y == y {
						t.Fatalf("%s, %d elements in place: got %g, want %g", f.name, n, y, ys[30+i])
					}
				}
			}
		}
	})
}
