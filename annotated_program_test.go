package galley_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// chain is products one after the other, each on a mesh of its own where there are meshes: its weights are
// split by columns and by rows in turn, and activations are resharded on the way.
type chain struct {
	weights []*nn.Param
	meshes  []*mesh.Mesh
}

const chainWidth, chainRows = 8, 8

// newChain makes a chain on a mesh for each product; without any it is of one device.
func newChain(t *testing.T, s op.Scope, products int, meshes ...string) *chain {
	t.Helper()
	in := nn.NewInit(nn.Config{Scope: s, DType: array.F64, Seed: 5})
	c := &chain{}
	for i := range products {
		p := in.Param(fmt.Sprint("w", i), array.Shape{chainWidth, chainWidth}, nn.Normal(0.4))
		c.weights = append(c.weights, p)
		if len(meshes) == 0 {
			continue
		}
		m := parseMesh(t, meshes[i])
		c.meshes = append(c.meshes, m)
		p.Value = dtensor.Shard(p.Value, m, c.placements(i, i%2)...).Detach().Track()
	}
	return c
}

// placements splits a weight's dim by the last axis of its mesh.
func (c *chain) placements(i, side int) []mesh.Placement {
	list := make([]mesh.Placement, c.meshes[i].NumAxes())
	list[len(list)-1] = mesh.Shard(1 - side)
	return list
}

func (c *chain) Params() []*nn.Param { return c.weights }

func (c *chain) Forward(in ...*galley.Tensor) []*galley.Tensor {
	x := in[0]
	for i, w := range c.weights {
		if c.meshes != nil {
			x = dtensor.Reshard(x, c.meshes[i], mesh.Shard(0))
		}
		x = op.Tanh(op.MatMul(x, w.Value))
	}
	return []*galley.Tensor{x}
}

// chainLoss lays the labels where the output is.
func (c *chain) loss(out, labels []*galley.Tensor) *galley.Tensor {
	y := labels[0]
	if c.meshes != nil {
		y = dtensor.Shard(y, c.meshes[len(c.meshes)-1], mesh.Shard(0))
	}
	return op.MSELoss(out[0], y, "mean")
}

func chainBatch(step int) []array.Array {
	x, y := array.New(array.F64, chainRows, chainWidth), array.New(array.F64, chainRows, chainWidth)
	for i := range x.Len() {
		x.Set(i, math.Sin(float64(3*i+step)))
		y.Set(i, math.Cos(float64(5*i-step))/2)
	}
	return []array.Array{x, y}
}

type chainLoader struct{}

func (chainLoader) Len() int { return 4 }

func (chainLoader) Batch(i int) ([]array.Array, error) { return chainBatch(i), nil }

const chainSteps = 3

// trainChain returns the losses of a few static steps, and then all weights.
func trainChain(t *testing.T, c *chain, o optim.Optimizer,
	s *galley.Strategy) ([]float64, *galley.DistModel) {
	t.Helper()
	d, err := galley.ToStatic(c, chainLoader{}, c.loss, o, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	var list []float64
	for i := range chainSteps {
		r, err := d.Run(t.Context(), chainBatch(i)...)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r.Loss)
	}
	return append(list, c.values(t)...), d
}

func (c *chain) values(t *testing.T) (list []float64) {
	t.Helper()
	for _, p := range c.weights {
		a, err := galley.Read(p.Value)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, a.Float64s()...)
	}
	return list
}

// eagerChain returns trainChain op by op, as one writes it on meshes.
func eagerChain(t *testing.T, c *chain) []float64 {
	t.Helper()
	var list []float64
	slots := make([][]*galley.Tensor, len(c.weights))
	for i := range chainSteps {
		b := chainBatch(i)
		w := c.weights[0].Value.Scope().(*dtensor.World)
		loss := c.loss(c.Forward(w.Tensor(b[0])), []*galley.Tensor{w.Tensor(b[1])})
		grads := op.GradOnce([]*galley.Tensor{loss}, nil, nn.Values(c.weights))
		l, err := galley.Read(loss)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, l.At(0))
		for k, p := range c.weights {
			v := p.Value.Detach()
			if slots[k] == nil {
				slots[k] = []*galley.Tensor{op.ZerosLike(v), op.ZerosLike(v)}
			}
			at := optim.Step{LR: op.Const(v, 1e-3), Count: op.Const(v, float64(i+1)), Scale: op.Const(v, 1)}
			var next *galley.Tensor
			next, slots[k] = optim.AdamW{WeightDecay: 0.1}.Update(v, grads[k], slots[k], at)
			p.Value = next.Detach().Track()
		}
	}
	return append(list, c.values(t)...)
}

// within returns an error unless all numbers are.
func within(got, want []float64, eps float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("got %d numbers, want %d", len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= eps) {
			return fmt.Errorf("number %d: got %v, want %v", i, got[i], want[i])
		}
	}
	return nil
}

// sameText reads the plan of a step back from its text.
func sameText(t *testing.T, d *galley.DistModel) {
	t.Helper()
	typ := galley.Type{DType: array.F64, Shape: array.Shape{chainRows, chainWidth}}
	p, err := d.Trainer().Plan(typ, typ)
	if err != nil {
		t.Fatal(err)
	}
	text := p.Step.String()
	again, err := step.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(again.String(), "\n")
	for i, line := range strings.Split(text, "\n") {
		if i >= len(got) || got[i] != line {
			t.Fatalf("line %d of the plan is read as another:\n%s\n%s", i+1, line, got[min(i, len(got)-1)])
		}
	}
}

// TestAnnotatedPrograms: a model on meshes is converted as it is: meshes are stages, in any shape and order,
// under any schedule, and its losses and weights are those of the same program op by op and of one device.
func TestAnnotatedPrograms(t *testing.T) {
	const a, b = "dp=2,tp=2", "dp=2,tp=2@[4,5,6,7]"
	want, _ := trainChain(t, newChain(t, device(t).NewSession(), 4), optim.AdamW{WeightDecay: 0.1}, nil)
	for _, x := range shortened([]struct {
		meshes []string
		s      *galley.Strategy
	}{
		{[]string{a, a, a, a}, nil},
		{[]string{a, a, b, b}, nil},
		{[]string{a, a, b, b}, &galley.Strategy{Micro: 4, Schedule: "1f1b"}},
		{[]string{a, a, b, b}, &galley.Strategy{Micro: 4, Schedule: "fthenb"}},
		{[]string{a, a, b, b}, &galley.Strategy{Micro: 4, Schedule: "zbh1"}},
		{[]string{a, a, b, b}, &galley.Strategy{DP: 2, TP: 2, PP: 2, Micro: 4}},
		{[]string{a, b, a, b}, &galley.Strategy{VPP: 2, Micro: 4, Schedule: "interleaved"}},
		{[]string{a, b, b, a}, &galley.Strategy{Micro: 4, Schedule: "zbv"}},
		{[]string{a, b, b, a}, &galley.Strategy{Micro: 4, Schedule: "dualpipev"}},
		{[]string{a, b, b, a}, &galley.Strategy{Micro: 2}},
		{[]string{"x=2", "y=2@[2,3]", "z=4@[7,6,5,4]", "u=2,v=4@[8,9,10,11,12,13,14,15]"},
			&galley.Strategy{Micro: 2}},
		{[]string{"x=4", "dp=2,tp=2", "y=2@[4,5]", "x=3@[6,7,8]"}, nil},
		{[]string{"x=2,y=2", "x=2", "y=2@[2,3]", "x=2,y=2"}, nil},
		{[]string{"x=2@[2,3]", "x=2@[2,3]", "y=2@[5,6]", "y=2@[5,6]"}, &galley.Strategy{Micro: 2}},
		{[]string{a, a, b, b}, &galley.Strategy{Micro: 2, Zero: 1}},
		{[]string{a, a, b, b}, &galley.Strategy{Micro: 2, Zero: 2}},
		{[]string{a, a, b, b}, &galley.Strategy{Micro: 2, Zero: 3}},
		{[]string{a, a, b, b}, &galley.Strategy{Micro: 2, Recompute: "full", Overlap: strategy.On}},
	}) {
		t.Run(fmt.Sprint(strings.Join(x.meshes, " "), " ", x.s), func(t *testing.T) {
			w := world(t, 16)
			got, d := trainChain(t, newChain(t, w, 4, x.meshes...), optim.AdamW{WeightDecay: 0.1}, x.s)
			sameText(t, d)
			if err := within(got, want, 1e-10); err != nil {
				t.Errorf("static and one device: %v", err)
			}
			if err := within(got, eagerChain(t, newChain(t, w, 4, x.meshes...)), 1e-10); err != nil {
				t.Errorf("static and eager: %v", err)
			}
		})
	}
}

// tiedChain is a model whose first weight is its last one, too, on another mesh.
type tiedChain struct {
	*chain
	a, b *mesh.Mesh
}

func (m *tiedChain) Forward(in ...*galley.Tensor) []*galley.Tensor {
	first, mid := m.weights[0].Value, m.weights[1].Value
	x, last := in[0], first
	if m.a != nil {
		x, last = dtensor.Reshard(x, m.a, mesh.Shard(0)),
			dtensor.Reshard(first, m.b, mesh.Replicate(), mesh.Shard(0))
	}
	x = op.Tanh(op.MatMul(x, first))
	if m.a != nil {
		x = dtensor.Reshard(x, m.b, mesh.Shard(0))
	}
	return []*galley.Tensor{op.MatMul(op.Tanh(op.MatMul(x, mid)), last)}
}

// TestAnnotatedTied: a weight that is resharded to another mesh is held by both, its gradients are summed,
// and the copies stay equal: the losses are those of one device.
func TestAnnotatedTied(t *testing.T) {
	losses := func(m *tiedChain, s *galley.Strategy) (list []float64) {
		d, err := galley.ToStatic(m, chainLoader{}, squares, optim.AdamW{}, s)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for i := range chainSteps {
			r, err := d.Run(t.Context(), chainBatch(i)...)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, r.Loss)
		}
		return append(list, m.values(t)...)
	}
	const a, b = "dp=2,tp=2", "dp=2,tp=2@[4,5,6,7]"
	want := losses(&tiedChain{chain: newChain(t, device(t).NewSession(), 2)}, nil)
	for _, s := range []*galley.Strategy{nil, {Micro: 4, Schedule: "1f1b"}, {Micro: 2, Zero: 2}} {
		got := losses(&tiedChain{newChain(t, world(t, 8), 2, a, b), parseMesh(t, a), parseMesh(t, b)}, s)
		if err := within(got, want, 1e-10); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
}

// TestAnnotatedRest: parameters on their own mesh rest there, without a strategy and with one: each
// device has its share of them and of what the optimizer keeps, and gradients need no more than they must.
func TestAnnotatedRest(t *testing.T) {
	for _, s := range []*galley.Strategy{nil, {DP: 2}} {
		c := newChain(t, world(t, 2), 2, "x=2", "x=2")
		d, err := galley.ToStatic(galley.ModelFunc(c.weights, func(in []*galley.Tensor) []*galley.Tensor {
			return []*galley.Tensor{op.MatMul(op.Tanh(op.MatMul(in[0], c.weights[0].Value)), c.weights[1].Value)}
		}), chainLoader{}, squares, optim.AdamW{}, s)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		typ := galley.Type{DType: array.F64, Shape: array.Shape{chainRows, chainWidth}}
		cost, err := d.Trainer().Cost(typ, typ)
		if err != nil {
			t.Fatal(err)
		}
		const share = 2 * chainWidth * chainWidth * 8 / 2
		if x := cost.Devices[0]; x.Weights != share || x.Slots != 2*share || x.Sums != share ||
			s == nil && x.Collectives > 3 {
			t.Errorf("%v: %+v: want shares of %d bytes and at most 3 collectives", s, x, share)
		}
	}
}

// TestAnnotatedMask: what the batch alone decides may be on a mesh of all devices: every stage has it, and
// the stages stay stages.
func TestAnnotatedMask(t *testing.T) {
	const a, b = "dp=2,tp=2", "dp=2,tp=2@[4,5,6,7]"
	all := parseMesh(t, "pp=2,dp=2,tp=2")
	c := newChain(t, world(t, 8), 2, a, b)
	d, err := galley.ToStatic(galley.ModelFunc(c.weights, func(in []*galley.Tensor) []*galley.Tensor {
		mask := dtensor.Shard(op.Cast(op.Greater(in[0], op.ZerosLike(in[0])), array.F64), all)
		x := in[0]
		for i, w := range c.weights {
			x = dtensor.Reshard(x, c.meshes[i], mesh.Shard(0))
			x = op.Mul(op.MatMul(x, w.Value), dtensor.Reshard(mask, c.meshes[i], mesh.Shard(0)))
		}
		return []*galley.Tensor{x}
	}), chainLoader{}, squares, optim.AdamW{}, &galley.Strategy{Micro: 4, Schedule: "1f1b"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	typ := galley.Type{DType: array.F64, Shape: array.Shape{chainRows, chainWidth}}
	p, err := d.Trainer().Plan(typ, typ)
	if err != nil || p.Stages != 2 {
		t.Errorf("got %d stages, %v: want 2", p.Stages, err)
	}
	if _, err := d.Run(t.Context(), chainBatch(0)...); err != nil {
		t.Error(err)
	}
}

// TestAnnotatedContradictions: what a strategy, or another line, says otherwise is an error that names both.
func TestAnnotatedContradictions(t *testing.T) {
	const a, b = "dp=2,tp=2", "dp=2,tp=2@[4,5,6,7]"
	chainOf := func(meshes ...string) *chain { return newChain(t, world(t, 8), len(meshes), meshes...) }
	for _, x := range []struct {
		c    *chain
		s    *galley.Strategy
		want []string
	}{
		{chainOf(a, b), &galley.Strategy{DP: 2}, []string{`parameter "w0"`, "annotated_program_test.go:"}},
		{chainOf(a, b), &galley.Strategy{PP: 3}, []string{`parameter "w0"`, "pp=3", "annotated_program_test.go:"}},
		{chainOf(a, b), &galley.Strategy{VPP: 2}, []string{"vpp=2", "annotated_program_test.go:"}},
		{chainOf(a, b), &galley.Strategy{Schedule: "zbv"}, []string{"zbv", "annotated_program_test.go:"}},
		{chainOf(a, b, a, b), &galley.Strategy{Schedule: "zbv", Micro: 4}, []string{"[0 1 0 1]", "[0 1 1 0]"}},
		{chainOf("x=2", "x=2"), &galley.Strategy{Zero: 3, Micro: 1}, nil},
	} {
		_, err := galley.ToStatic(x.c, chainLoader{}, x.c.loss, optim.AdamW{}, x.s)
		for _, want := range x.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: got %v, want an error with %s", x.s, err, want)
			}
		}
		if x.want == nil && err != nil {
			t.Errorf("%v: %v", x.s, err)
		}
	}
	c := chainOf(a, b)
	mixed := galley.ModelFunc(c.weights, func(in []*galley.Tensor) []*galley.Tensor {
		return []*galley.Tensor{op.MatMul(op.MatMul(in[0], c.weights[0].Value), c.weights[1].Value)}
	})
	_, err := galley.ToStatic(mixed, chainLoader{}, squares, optim.AdamW{}, nil)
	if err == nil || !strings.Contains(err.Error(), "reshard one of them") ||
		!strings.Contains(err.Error(), "annotated_program_test.go:") {
		t.Errorf("operands on two meshes: got %v", err)
	}
	_, err = galley.NewTrainer(galley.TrainerConfig{Device: device(t), Params: c.weights, Mode: galley.Eager,
		Loss: func(b []*galley.Tensor) *galley.Tensor { return c.loss(c.Forward(b[0]), b[1:]) }})
	if err == nil || !strings.Contains(err.Error(), `parameter "w0", laid at annotated_program_test.go:`) {
		t.Errorf("mode eager: got %v", err)
	}
}
