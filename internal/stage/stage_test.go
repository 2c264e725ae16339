package stage_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/op"
	"pgregory.net/rapid"
)

var square = ir.Type{DType: array.F64, Shape: array.Shape{3, 3}}

// layered returns the loss of layers, each with a weight of its own and the first one's again: it is tied.
// The batch goes into the first layer and, past all others, into the last.
func layered(t testing.TB, layers int) *ir.Func {
	t.Helper()
	b := ir.NewBuilder("layered")
	var weights []*ir.Value
	for i := range layers {
		weights = append(weights, b.Param(fmt.Sprintf("w%d", i), square))
	}
	batch := b.Param("batch", square)
	x := op.MatMul(batch, weights[0])
	early := x
	for i := 1; i < layers; i++ {
		x = op.Mark(x, fmt.Sprintf("layer%d", i))
		x = op.Add(op.Tanh(op.MatMul(x, weights[i])), op.Mul(x, weights[0]))
	}
	x = op.Mul(op.Add(x, early), op.Exp(batch))
	f, err := b.Build(op.Sum(op.Square(x)), op.Const(op.Sum(batch), 9))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// cuts returns the nodes that are marked.
func cuts(f *ir.Func) (list []int) {
	for i, n := range f.Nodes() {
		if _, ok := op.Marked(n); ok {
			list = append(list, i)
		}
	}
	return list
}

func wave(seed int) array.Array {
	a := array.New(array.F64, 3, 3)
	for i := range a.Len() {
		a.Set(i, math.Sin(float64(seed*7+i)))
	}
	return a
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

func run(t fataler, f *ir.Func, args []array.Array) []array.Array {
	t.Helper()
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
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

func near(a, b array.Array) bool {
	for i := range a.Len() {
		if math.Abs(a.At(i)-b.At(i)) > 1e-12 {
			return false
		}
	}
	return a.Len() == b.Len()
}

// TestSplit runs the stages one after the other, forward and then backward, twice over: the loss is that of
// the whole program, and sums over stages and turns are twice the gradients.
func TestSplit(t *testing.T) {
	const layers = 5
	whole := layered(t, layers)
	args := make([]array.Array, layers+1)
	for i := range args {
		args[i] = wave(i)
	}
	f, err := pass.Grad(whole, []int{0, 1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	want := run(t, f, args)
	all := cuts(whole)
	for _, at := range [][]int{nil, {0}, {1, 3}, {0, 1, 2, 3}} {
		var chosen []int
		for _, i := range at {
			chosen = append(chosen, all[i])
		}
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			stages, err := stage.Split(whole, stage.Config{Weights: layers, Cuts: chosen})
			if err != nil {
				t.Fatal(err)
			}
			got := newChain(t, stages, args)
			got.turn()
			if l := got.turn(); math.Abs(l-want[0].At(0)) > 1e-12 {
				t.Errorf("loss is %v, want %v", l, want[0].At(0))
			}
			for w := range layers {
				sum := array.New(array.F64, 3, 3)
				for k, s := range stages {
					if j := slices.Index(s.Weights, w); j >= 0 {
						for i := range sum.Len() {
							sum.Set(i, sum.At(i)+got.sums[k][j].At(i)/2)
						}
					}
				}
				if !near(sum, want[2+w]) {
					t.Errorf("gradient %d is %v, want %v", w, sum, want[2+w])
				}
			}
		})
	}
}

// chain runs joint programs by hand.
type chain struct {
	t      *testing.T
	stages []*stage.Stage
	args   []array.Array
	sums   [][]array.Array
}

func newChain(t *testing.T, stages []*stage.Stage, args []array.Array) *chain {
	c := &chain{t: t, stages: stages, args: args}
	for _, s := range stages {
		var sums []array.Array
		for range s.Weights {
			sums = append(sums, array.New(array.F64, 3, 3))
		}
		c.sums = append(c.sums, sums)
	}
	return c
}

// turn returns one micro-batch; a first pass finds what stages hand on, with gradients of zero, a second goes
// back.
func (c *chain) turn() (loss float64) {
	in := make([][]array.Array, len(c.stages)+1)
	for k, s := range c.stages {
		out := c.call(k, in[k], zeros(s))
		in[k+1] = out[:len(s.Out)]
	}
	loss = in[len(c.stages)][0].At(0)
	grads := []array.Array{array.Scalar(1.0)}
	for k := len(c.stages) - 1; k >= 0; k-- {
		s := c.stages[k]
		out := c.call(k, in[k], grads)
		grads = out[len(s.Out) : len(s.Out)+s.NumInGrads()]
		c.sums[k] = out[len(s.Out)+s.NumInGrads():]
	}
	return loss
}

func zeros(s *stage.Stage) (list []array.Array) {
	at := len(s.Weights) + len(s.Batch) + len(s.In)
	for _, p := range s.Joint.Params()[at : at+s.NumGrads()] {
		list = append(list, array.New(p.DType(), p.Shape()...))
	}
	return list
}

func (c *chain) call(k int, in, grads []array.Array) []array.Array {
	var args []array.Array
	for _, i := range append(slices.Clone(c.stages[k].Weights), c.stages[k].Batch...) {
		args = append(args, c.args[i])
	}
	return run(c.t, c.stages[k].Joint, slices.Concat(args, in, grads, c.sums[k]))
}

func TestSplitRefuses(t *testing.T) {
	f := layered(t, 3)
	for _, bad := range [][]int{{0}, {len(f.Nodes())}, {4, 2}, {-1}} {
		if _, err := stage.Split(f, stage.Config{Weights: 3, Cuts: bad}); err == nil {
			t.Errorf("cuts at %v were taken", bad)
		}
	}
}

// TestCut: whatever is kept, and whichever results come first, the two parts compute what the program did,
// and the second takes nothing of the first that is not kept.
func TestCut(t *testing.T) {
	whole := layered(t, 4)
	stages, err := stage.Split(whole, stage.Config{Weights: 4})
	if err != nil {
		t.Fatal(err)
	}
	f := stages[0].Joint
	var args []array.Array
	for i, p := range f.Params() {
		a := array.New(array.F64, p.Shape()...)
		for k := range a.Len() {
			a.Set(k, math.Cos(float64(i*5+k)))
		}
		args = append(args, a)
	}
	want := run(t, f, args)
	rapid.Check(t, func(t *rapid.T) {
		var first []int
		for i := range f.Results() {
			if rapid.Bool().Draw(t, "first") {
				first = append(first, i)
			}
		}
		kept := make([]bool, f.NumValues())
		for i := range kept {
			kept[i] = rapid.Bool().Draw(t, "kept")
		}
		keep := func(n *ir.Node) bool { return kept[n.Out()[0].ID()] }
		a, b, err := stage.Cut(f, [2]string{"a", "b"}, first, keep)
		if err != nil {
			t.Fatal(err)
		}
		env := make([]array.Array, f.NumValues())
		copy(env, args)
		for _, p := range []*stage.Part{a, b} {
			var in []array.Array
			for _, id := range p.Params {
				if !env[id].IsValid() {
					t.Fatalf("%s needs value %d, which nobody has made", p.Func.Name(), id)
				}
				if p == b && id >= len(args) && !kept[id] {
					t.Fatalf("value %d was handed on though it is not kept", id)
				}
				in = append(in, env[id])
			}
			for i, x := range run(t, p.Func, in) {
				env[p.Results[i]] = x
			}
		}
		for i, v := range f.Results() {
			if !near(env[v.ID()], want[i]) {
				t.Fatalf("result %d: got %v, want %v", i, env[v.ID()], want[i])
			}
		}
	})
}

// TestKeep: what a backward pass is handed, by policy.
func TestKeep(t *testing.T) {
	stages, err := stage.Split(layered(t, 3), stage.Config{Weights: 3})
	if err != nil {
		t.Fatal(err)
	}
	f := stages[0].Joint
	for _, x := range []struct {
		policy stage.Recompute
		want   []string // the ops whose results are handed over
	}{
		{stage.RecomputeNone, []string{"matmul", "tanh", "exp", "add", "mul", "mark"}},
		{stage.RecomputeSelective, []string{"matmul", "mark"}},
		{stage.RecomputeFull, []string{"mark"}},
	} {
		keep := stage.NewKeep(f, 3, func(string) bool { return true },
			func(string) stage.Recompute { return x.policy })
		_, b, err := stage.Cut(f, [2]string{"forward", "backward"}, []int{0, 1}, keep)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range f.Nodes() {
			for _, v := range n.Out() {
				if name := n.Op().Name(); slices.Contains(b.Params, v.ID()) && !slices.Contains(got, name) {
					got = append(got, name)
				}
			}
		}
		for _, name := range got {
			if !slices.Contains(x.want, name) {
				t.Errorf("policy %d: %s is handed over", x.policy, name)
			}
		}
		if len(got) == 0 {
			t.Errorf("policy %d: nothing is handed over", x.policy)
		}
		again := len(b.Func.Nodes())
		if x.policy == stage.RecomputeFull && again <= len(f.Nodes())/2 {
			t.Errorf("a backward pass that computes everything again has %d nodes of %d", again, len(f.Nodes()))
		}
	}
}

// TestKeepByLayer: one layer is computed again, the others are not.
func TestKeepByLayer(t *testing.T) {
	stages, err := stage.Split(layered(t, 4), stage.Config{Weights: 4})
	if err != nil {
		t.Fatal(err)
	}
	f := stages[0].Joint
	handed := func(policy func(layer string) stage.Recompute) int {
		keep := stage.NewKeep(f, 4, func(string) bool { return true }, policy)
		_, b, err := stage.Cut(f, [2]string{"forward", "backward"}, []int{0, 1}, keep)
		if err != nil {
			t.Fatal(err)
		}
		return len(b.Params)
	}
	none := handed(func(string) stage.Recompute { return stage.RecomputeNone })
	one := handed(func(layer string) stage.Recompute {
		if layer == "layer2" {
			return stage.RecomputeFull
		}
		return stage.RecomputeNone
	})
	full := handed(func(string) stage.Recompute { return stage.RecomputeFull })
	if !(full < one && one < none) {
		t.Errorf("handed over are %d values for no layer, %d for one, %d for all", none, one, full)
	}
}
