package galley_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
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

// trainChain is the losses of a few static steps, and then all weights.
func trainChain(t *testing.T, c *chain, o optim.Optimizer, s *galley.Strategy) ([]float64, *galley.DistModel) {
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

// eagerChain is trainChain op by op, as one writes it on meshes.
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

// within is an error unless all numbers are.
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

// TestAnnotatedPrograms: a model on meshes is converted as it is: meshes are stages, in any shape and order,
// under any schedule, and its losses and weights are those of the same program op by op and of one device.
func TestAnnotatedPrograms(t *testing.T) {
	const a, b = "dp=2,tp=2", "dp=2,tp=2@[4,5,6,7]"
	want, _ := trainChain(t, newChain(t, device(t).NewSession(), 4), optim.AdamW{WeightDecay: 0.1}, nil)
	for _, x := range []struct {
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
		{[]string{"x=2", "y=2@[2,3]", "z=4@[7,6,5,4]", "u=2,v=4@[8,9,10,11,12,13,14,15]"}, &galley.Strategy{Micro: 2}},
		{[]string{"x=4", "dp=2,tp=2", "y=2@[4,5]", "x=3@[6,7,8]"}, nil},
		{[]string{"x=2,y=2", "x=2", "y=2@[2,3]", "x=2,y=2"}, nil},
		{[]string{"x=2@[2,3]", "x=2@[2,3]", "y=2@[5,6]", "y=2@[5,6]"}, &galley.Strategy{Micro: 2}},
		{[]string{a, a, b, b}, &galley.Strategy{Micro: 2, Zero: 1}},
		{[]string{a, a, b, b}, &galley.Strategy{Micro: 2, Zero: 2}},
		{[]string{a, a, b, b}, &galley.Strategy{Micro: 2, Zero: 3}},
		{[]string{a, a, b, b}, &galley.Strategy{Micro: 2, Recompute: "full", Overlap: true}},
	} {
		t.Run(fmt.Sprint(strings.Join(x.meshes, " "), " ", x.s), func(t *testing.T) {
			w := world(t, 16)
			got, _ := trainChain(t, newChain(t, w, 4, x.meshes...), optim.AdamW{WeightDecay: 0.1}, x.s)
			if err := within(got, want, 1e-10); err != nil {
				t.Errorf("static and one device: %v", err)
			}
			if err := within(got, eagerChain(t, newChain(t, w, 4, x.meshes...)), 1e-10); err != nil {
				t.Errorf("static and eager: %v", err)
			}
		})
	}
}
