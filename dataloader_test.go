package galley_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// net returns a small network made in a scope.
func net(scope op.Scope) galley.Model {
	in := nn.NewInit(nn.Config{Scope: scope, Seed: 5, DType: array.F64})
	up, down := nn.NewLinear(in.At("up"), 6, 10), nn.NewLinear(in.At("down"), 10, 3)
	return galley.ModelFunc(in.Params(), func(x []*galley.Tensor) []*galley.Tensor {
		return []*galley.Tensor{down.Forward(op.Tanh(up.Forward(x[0])))}
	})
}

// samples returns 16 rows for net, in batches of 8.
func samples(t *testing.T) *data.Loader {
	t.Helper()
	x, y := array.New(array.F64, 16, 6), array.New(array.F64, 16, 3)
	for i := range x.Len() {
		x.Set(i, float64(i*i%13)/7-1)
	}
	for i := range y.Len() {
		y.Set(i, float64(i%5)/3)
	}
	ds, err := data.Rows(x, y)
	if err != nil {
		t.Fatal(err)
	}
	l, err := data.NewLoader(ds, data.LoaderConfig{Batch: 8})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// netLosses returns the plain trainer's losses of net.
func netLosses(t *testing.T, steps int) (list []float64) {
	t.Helper()
	d := device(t)
	m := net(d.NewSession())
	tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params(), Optimizer: optim.SGD{},
		Schedule: optim.Constant{LR: 0.1},
		Loss:     func(b []*op.Tensor) *op.Tensor { return op.MSELoss(m.Forward(b[0])[0], b[1], "mean") }})
	if err != nil {
		t.Fatal(err)
	}
	for i := range steps {
		r, err := tr.Step(batchOf(t, samples(t), i)...)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r.Loss)
	}
	return list
}

// TestShardDataLoader trains op by op: parameters and batches are on a mesh, and the losses are the plain
// trainer's.
func TestShardDataLoader(t *testing.T) {
	w, err := dtensor.NewWorld(device(t), 4)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	m, err := mesh.Parse("dp=2,tp=2")
	if err != nil {
		t.Fatal(err)
	}
	model := net(w)
	err = dtensor.ShardLayer(model.Params(), m, func(name string, _ galley.Type) []mesh.Placement {
		if name == "up.weight" {
			return []mesh.Placement{mesh.Replicate(), mesh.Shard(0)}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := dtensor.NewLoader(w, samples(t), []*mesh.Mesh{m}, dtensor.Axes{"dp"})
	if err != nil {
		t.Fatal(err)
	}
	var losses []float64
	for i := range 4 {
		b, err := l.Tensors(i)
		if err != nil {
			t.Fatal(err)
		}
		if _, spec, _ := dtensor.Placements(b[0]); spec.String() != "@[dp,_]" {
			t.Fatalf("inputs have layout %v", spec)
		}
		loss := galley.MeanSquares(model.Forward(b[0]), b[1:])
		grads := op.GradOnce([]*op.Tensor{loss}, nil, nn.Values(model.Params()))
		for k, p := range model.Params() {
			p.Value = op.Sub(p.Value.Detach(), op.MulScalar(grads[k], 0.1)).Detach().Track()
		}
		a, err := galley.Read(loss)
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, a.At(0))
	}
	near(t, "losses", losses, netLosses(t, 4))
}

func TestShardRefuses(t *testing.T) {
	m, err := mesh.Parse("dp=2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dtensor.NewLoader(nil, samples(t), []*mesh.Mesh{m}, dtensor.Axes{"mp"}); err == nil ||
		!strings.Contains(err.Error(), `no axis "mp"`) {
		t.Errorf("got %v", err)
	}
	other, err := galley.ShardOptimizer(optim.AdamW{}, optim.ShardingStage1{Axis: "mp"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := galley.ToStatic(galley.Language(smallModel(t, device(t))), nil, galley.CrossEntropy, other,
		&galley.Strategy{DP: 2}); err == nil || !strings.Contains(err.Error(), `want "dp"`) {
		t.Errorf("got %v", err)
	}
	o, err := galley.ShardOptimizer(adamW(), optim.ShardingStage2{Axis: "dp"})
	if err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]*galley.Strategy{"set DP to 2 or more": nil,
		"leave one of them out": {DP: 2, Zero: 1}} {
		if _, err := galley.ToStatic(galley.Language(smallModel(t, device(t))), windows(t), galley.CrossEntropy, o,
			s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestShardOptimizer(t *testing.T) {
	for i, stage := range []optim.ShardingStage{optim.ShardingStage1{Axis: "dp"}, optim.ShardingStage2{},
		optim.ShardingStage3{}} {
		o, err := galley.ShardOptimizer(adamW(), stage)
		if err != nil {
			t.Fatal(err)
		}
		o.Accumulate = 2
		d, err := galley.ToStatic(galley.Language(smallModel(t, device(t))), windows(t), galley.CrossEntropy, o,
			&galley.Strategy{DP: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		checkStatic(t, d)
		c, err := d.Trainer().Cost(typesOf(batchOf(t, windows(t), 0))...)
		if err != nil {
			t.Fatal(err)
		}
		whole := costUnder(t, galley.Language(smallModel(t, device(t))), &galley.Strategy{DP: 2}).Devices[0]
		halved := []bool{c.Devices[0].Slots < whole.Slots*6/10, c.Devices[0].Sums < whole.Sums*6/10,
			c.Devices[0].Weights < whole.Weights*6/10}
		for k, got := range halved {
			if got != (k <= i) {
				t.Errorf("stage %d: slots, sums, weights halved: %v", i+1, halved)
			}
		}
	}
}
