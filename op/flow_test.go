package op_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// A flowProgram is a function of tensors, written with a loop or a choice and without.
type flowProgram struct {
	name        string
	with, plain func(x []*op.Tensor) []*op.Tensor
}

const flowTrips = 4

// cell returns a trip of a recurrence with weights from outside, on a carried state and a sum.
func cell(h, sum, x, w, u *op.Tensor) (next, total, y *op.Tensor) {
	next = op.Tanh(op.Add(op.MatMul(h, w), op.MatMul(x, u)))
	return next, op.Add(sum, op.Sum(op.Mul(next, h), 0)), op.Square(next)
}

func row(x *op.Tensor, i int) *op.Tensor {
	return op.Unbind(x, 0)[i]
}

// flowPrograms takes a state [3,4], a sum [4], rows [trips,3,2], weights [4,4] and [2,4].
func flowPrograms() []flowProgram {
	scan := func(c op.ScanConfig) func(x []*op.Tensor) []*op.Tensor {
		return func(x []*op.Tensor) []*op.Tensor {
			last, ys := op.ScanWith(c, func(carry, row []*op.Tensor) (next, y []*op.Tensor) {
				h, s, z := cell(carry[0], carry[1], row[0], x[3], x[4])
				return []*op.Tensor{h, s}, []*op.Tensor{z}
			}, x[:2], x[2:3])
			return append(last, ys...)
		}
	}
	unrolled := func(reverse bool) func(x []*op.Tensor) []*op.Tensor {
		return func(x []*op.Tensor) []*op.Tensor {
			h, s, ys := x[0], x[1], make([]*op.Tensor, flowTrips)
			for k := range flowTrips {
				i := k
				if reverse {
					i = flowTrips - 1 - k
				}
				h, s, ys[i] = cell(h, s, row(x[2], i), x[3], x[4])
			}
			return []*op.Tensor{h, s, op.Stack(ys, 0)}
		}
	}
	chosen := func(x []*op.Tensor) []*op.Tensor {
		return []*op.Tensor{op.Tanh(op.MatMul(x[0], x[3])), op.Mul(x[1], x[1])}
	}
	other := func(x []*op.Tensor) []*op.Tensor { return []*op.Tensor{op.Mul(x[0], x[1]), x[1]} }
	cond := func(yes bool) flowProgram {
		plain := other
		if yes {
			plain = chosen
		}
		return flowProgram{fmt.Sprintf("cond %v", yes), func(x []*op.Tensor) []*op.Tensor {
			pred := op.Greater(op.Sum(op.Square(x[1])), op.Const(x[1], -1))
			if !yes {
				pred = op.LogicalNot(pred)
			}
			return op.Cond(pred, func(in []*op.Tensor) []*op.Tensor {
				return chosen([]*op.Tensor{in[0], x[1], nil, x[3]})
			}, other, x[0], x[1])
		}, plain}
	}
	grow := func(x []*op.Tensor, w *op.Tensor) []*op.Tensor {
		return []*op.Tensor{op.Tanh(op.MatMul(x[0], w)), op.MulScalar(op.Square(x[1]), 2)}
	}
	// The number of trips depends on the data: x[1] has ones, which grow to 8, 128.
	while := flowProgram{"while", func(x []*op.Tensor) []*op.Tensor {
		start := []*op.Tensor{x[0], op.Add(op.MulScalar(x[1], 1e-3), op.Const(x[1], 1))}
		return op.WhileWith(op.WhileConfig{MaxTrips: 7}, func(in []*op.Tensor) *op.Tensor {
			return op.Less(op.Sum(in[1]), op.Const(in[1], 100))
		}, func(in []*op.Tensor) []*op.Tensor { return grow(in, x[3]) }, start...)
	}, func(x []*op.Tensor) []*op.Tensor {
		y := []*op.Tensor{x[0], op.Add(op.MulScalar(x[1], 1e-3), op.Const(x[1], 1))}
		for range 3 {
			y = grow(y, x[3])
		}
		return y
	}}
	// A scan whose body chooses by its own row, within a choice.
	nested := flowProgram{"nested", func(x []*op.Tensor) []*op.Tensor {
		return op.Cond(op.Less(op.Sum(x[1]), op.Const(x[1], 1e9)), func(in []*op.Tensor) []*op.Tensor {
			last, _ := op.Scan(func(carry, row []*op.Tensor) (next, y []*op.Tensor) {
				up := op.Greater(op.Sum(row[0]), op.Const(row[0], 0))
				return op.Cond(up, func(c []*op.Tensor) []*op.Tensor {
					return []*op.Tensor{op.Tanh(op.Add(op.MatMul(c[0], x[3]), op.MatMul(row[0], x[4])))}
				}, func(c []*op.Tensor) []*op.Tensor {
					return []*op.Tensor{op.Mul(c[0], in[1])}
				}, carry...), nil
			}, in[:1], x[2:3])
			return last
		}, func(in []*op.Tensor) []*op.Tensor { return in[:1] }, x[0], x[1])
	}, func(x []*op.Tensor) []*op.Tensor {
		h := x[0]
		for i := range flowTrips {
			r := row(x[2], i)
			up := op.Greater(op.Sum(r), op.Const(r, 0))
			h = op.Where(up, op.Tanh(op.Add(op.MatMul(h, x[3]), op.MatMul(r, x[4]))), op.Mul(h, x[1]))
		}
		return []*op.Tensor{h}
	}}
	return []flowProgram{
		{"scan", scan(op.ScanConfig{}), unrolled(false)},
		{"scan back", scan(op.ScanConfig{Reverse: true}), unrolled(true)},
		{"scan again", scan(op.ScanConfig{Recompute: true, Length: flowTrips}), unrolled(false)},
		cond(true), cond(false), while, nested,
	}
}

func flowOperands(rng *rand.Rand) []array.Array {
	var in []array.Array
	for _, shape := range []array.Shape{{3, 4}, {4}, {flowTrips, 3, 2}, {4, 4}, {2, 4}} {
		a := array.New(array.F64, shape...)
		for i := range a.Len() {
			array.Data[float64](a)[i] = rng.NormFloat64() / 2
		}
		in = append(in, a)
	}
	return in
}

// total returns one number of all results.
func total(ys []*op.Tensor) *op.Tensor {
	var sum *op.Tensor
	for i, y := range ys {
		term := op.MulScalar(op.Sum(op.Mul(y, op.Tanh(y))), float64(i)+0.5)
		if sum == nil {
			sum = term
		} else {
			sum = op.Add(sum, term)
		}
	}
	return sum
}

// all returns results, gradients and gradients of gradients of a program.
func all(f func(x []*op.Tensor) []*op.Tensor) func(x []*op.Tensor) []*op.Tensor {
	return func(x []*op.Tensor) []*op.Tensor {
		ys := f(x)
		first := op.Grad([]*op.Tensor{total(ys)}, nil, x)
		second := op.Grad([]*op.Tensor{total(first)}, nil, x)
		return append(append(ys, first...), second...)
	}
}

// optimized traces, optimizes, prints, parses and runs a program.
func optimized(t *testing.T, d *cpu.Device, in []array.Array,
	f func(x []*op.Tensor) []*op.Tensor) []array.Array {
	t.Helper()
	b := ir.NewBuilder("main")
	var xs []*op.Tensor
	for i, a := range in {
		xs = append(xs, b.Param(fmt.Sprint("x", i), ir.TypeOf(a)))
	}
	p, err := b.Build(f(xs)...)
	if err != nil {
		t.Fatal(err)
	}
	if p, err = pass.Optimize(p); err != nil {
		t.Fatal(err)
	}
	if p, err = ir.Parse(p.String(), op.Lookup); err != nil {
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

// TestFlow: loops and choices, eager and compiled, are what the same program is without them, with first and
// second derivatives: to 1e-12.
func TestFlow(t *testing.T) {
	d := device(t, 2)
	for _, p := range flowPrograms() {
		t.Run(p.name, func(t *testing.T) {
			in := flowOperands(rand.New(rand.NewPCG(3, 5)))
			want := all(p.plain)(at(d.NewSession(), in))
			eager := all(p.with)(at(d.NewSession(), in))
			traced := optimized(t, d, in, all(p.with))
			for i := range want {
				w := read(t, want[i])
				if e := distance(read(t, eager[i]), w); e > 1e-12 {
					t.Errorf("result %d: relative error %.3g eagerly", i, e)
				}
				if e := distance(traced[i], w); e > 1e-12 {
					t.Errorf("result %d: relative error %.3g compiled", i, e)
				}
			}
		})
	}
}

// TestFlowValueOnly: what is kept for gradients goes where nobody takes them.
func TestFlowValueOnly(t *testing.T) {
	b := ir.NewBuilder("main")
	var xs []*op.Tensor
	for _, a := range flowOperands(rand.New(rand.NewPCG(3, 5))) {
		xs = append(xs, b.Param("", ir.TypeOf(a)))
	}
	f, err := b.Build(flowPrograms()[0].with(xs)[0])
	if err != nil {
		t.Fatal(err)
	}
	g, err := pass.Optimize(f)
	if err != nil {
		t.Fatal(err)
	}
	n := g.Nodes()[0]
	if len(f.Nodes()[0].Out()) != 5 || len(n.Out()) != 1 || len(n.In()) != 4 {
		t.Errorf("got %v, want the state alone, without sum, rows and what is kept", n)
	}
}

// TestFlowEdges: no trips, and choices that give back what they got.
func TestFlowEdges(t *testing.T) {
	s := device(t, 1).NewSession()
	x := s.Tensor(array.FromSlice([]float64{1, 2, 3}, 3)).Track()
	double := func(x []*op.Tensor) []*op.Tensor { return []*op.Tensor{op.Add(x[0], x[0])} }
	never := op.While(func(x []*op.Tensor) *op.Tensor {
		return op.Less(op.Sum(x[0]), op.Const(x[0], 0))
	}, double, x)[0]
	same(t, "no trips", read(t, never), read(t, x))
	last, ys := op.Scan(func(c, r []*op.Tensor) ([]*op.Tensor, []*op.Tensor) {
		return double(c), []*op.Tensor{op.Mul(c[0], r[0])}
	}, []*op.Tensor{x}, []*op.Tensor{op.Zeros(s, array.F64, 0, 3)})
	same(t, "no rows", read(t, last[0]), read(t, x))
	if got := read(t, ys[0]).Shape(); !got.Equal(array.Shape{0, 3}) {
		t.Errorf("no rows: got %v", got)
	}
	g := op.Grad([]*op.Tensor{op.Sum(last[0])}, nil, []*op.Tensor{x})[0]
	same(t, "gradient of no rows", read(t, g), read(t, op.OnesLike(x)))
}

// TestFlowMistakes: each is one line that names the place of the call.
func TestFlowMistakes(t *testing.T) {
	s := device(t, 1).NewSession()
	x := s.Tensor(array.FromSlice([]float64{1, 2, 3}, 3)).Track()
	yes := op.Less(op.Sum(x), op.Const(x, 100))
	id := func(x []*op.Tensor) []*op.Tensor { return x }
	line, err := mesh.Parse("x=2")
	if err != nil {
		t.Fatal(err)
	}
	halves, err := mesh.ParseSharding("@[x]")
	if err != nil {
		t.Fatal(err)
	}
	var leaked *op.Tensor
	op.Cond(yes, func(x []*op.Tensor) []*op.Tensor { leaked = x[0]; return x }, id, x)
	below := func(x []*op.Tensor) *op.Tensor { return op.Less(op.Sum(x[0]), op.Const(x[0], 100)) }
	twice := func(x []*op.Tensor) []*op.Tensor { return []*op.Tensor{op.Add(x[0], x[0])} }
	scan := func(c op.ScanConfig, next func(c, r []*op.Tensor) []*op.Tensor, xs ...*op.Tensor) *op.Tensor {
		last, _ := op.ScanWith(c, func(c, r []*op.Tensor) ([]*op.Tensor, []*op.Tensor) {
			return next(c, r), nil
		}, []*op.Tensor{x}, xs)
		return last[0]
	}
	for want, y := range map[string]*op.Tensor{
		"want one truth value": op.Cond(x, id, id, x)[0],
		"result of the second branch 0 is f64[]: want f64[3]": op.Cond(yes, id, func(x []*op.Tensor) []*op.Tensor {
			return []*op.Tensor{op.Sum(x[0])}
		}, x)[0],
		"carried value 0 is f32[3]: want f64[3]": op.While(below, func(x []*op.Tensor) []*op.Tensor {
			return []*op.Tensor{op.Cast(x[0], array.F32)}
		}, x)[0],
		"condition 0 is bool[3]": op.While(func(x []*op.Tensor) *op.Tensor {
			return op.Less(x[0], x[0])
		}, twice, x)[0],
		"at most -1 trips": op.WhileWith(op.WhileConfig{MaxTrips: -1}, below, twice, x)[0],
		"give WhileWith a MaxTrips, or take Scan": op.Grad(
			[]*op.Tensor{op.Sum(op.While(below, twice, x)[0])}, nil, []*op.Tensor{x})[0],
		"length -2 is negative": scan(op.ScanConfig{Length: -2},
			func(c, _ []*op.Tensor) []*op.Tensor { return c }),
		"carries on 0 values: want 1": scan(op.ScanConfig{Length: 2},
			func(_, _ []*op.Tensor) []*op.Tensor { return nil }),
		"has no rows": scan(op.ScanConfig{}, func(c, _ []*op.Tensor) []*op.Tensor { return c }, op.Sum(x)),
		"has 3 rows: want 5": scan(op.ScanConfig{Length: 5},
			func(c, _ []*op.Tensor) []*op.Tensor { return c }, x),
		"want numbers or shapes that broadcast": scan(op.ScanConfig{},
			func(c, _ []*op.Tensor) []*op.Tensor { return []*op.Tensor{op.Add(c[0], op.Zeros(s, array.F64, 7))} }, x),
		"live only inside its function": op.Add(leaked, x),
		"sharding @[x] inside a body: want it of an operand": op.Cond(yes, func(x []*op.Tensor) []*op.Tensor {
			return []*op.Tensor{op.Constrain(x[0], line, halves)}
		}, id, x)[0],
	} {
		err := y.Err()
		if err == nil {
			t.Errorf("%s: no error", want)
			continue
		}
		if strings.Contains(want, "broadcast") {
			want = "flow_test.go"
		}
		if text := err.Error(); !strings.Contains(text, want) || strings.Contains(text, "\n") ||
			!strings.Contains(text, "flow_test.go:") {
			t.Errorf("got %q, want a line of flow_test.go and %q", text, want)
		}
	}
}
