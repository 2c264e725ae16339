package galley_test

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// towers returns a model of two embeddings that nobody annotated, and batches of it.
func towers(t *testing.T) (galley.Model, galley.Loader) {
	t.Helper()
	in := nn.NewInit(nn.Config{Scope: device(t).NewSession(), Seed: 3})
	users, items := nn.NewEmbedding(in.At("users"), 64, 16), nn.NewEmbedding(in.At("items"), 64, 16)
	left, right := nn.NewLinearNoBias(in.At("left"), 16, 32), nn.NewLinearNoBias(in.At("right"), 16, 32)
	m := galley.ModelFunc(in.Params(), func(b []*galley.Tensor) []*galley.Tensor {
		x, y := left.Forward(op.Tanh(users.Forward(b[0]))), right.Forward(op.Tanh(items.Forward(b[1])))
		return []*galley.Tensor{op.Sum(op.Mul(x, y), 1)}
	})
	return m, pairs{}
}

// pairs is batches of users, items and how much they go together.
type pairs struct{}

func (pairs) Len() int { return 4 }

func (pairs) Batch(i int) ([]array.Array, error) {
	users, items, score := array.New(array.I32, 16), array.New(array.I32, 16), array.New(array.F32, 16)
	for k := range 16 {
		array.Data[int32](users)[k], array.Data[int32](items)[k] = int32((7*k+i)%64), int32((5*k+3*i)%64)
		array.Data[float32](score)[k] = float32((k+i)%3) - 1
	}
	return []array.Array{users, items, score}, nil
}

// lossesOf returns those of three steps.
func lossesOf(t *testing.T, d *galley.DistModel, l galley.Loader) []float64 {
	t.Helper()
	var list []float64
	for i := range 3 {
		b, err := l.Batch(i)
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.Run(t.Context(), b...)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r.Loss)
	}
	return list
}

// TestAutoTrains: a strategy that is left to the search trains as one device does, in ToStatic, by a plan
// that was saved and read, and with parts of it said.
func TestAutoTrains(t *testing.T) {
	opt := optim.AdamW{}
	m, l := towers(t)
	one, err := galley.ToStatic(m, l, galley.MeanSquares, opt, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	want := lossesOf(t, one, l)
	for _, s := range []galley.Strategy{{Auto: 4}, {Auto: 4, TP: 4}, {Auto: 4, DP: 2, TP: 2, Zero: 2},
		{Auto: 2, PP: 2, Micro: 2}} {
		m, l := towers(t)
		d, err := galley.ToStatic(m, l, galley.MeanSquares, opt, &s)
		if err != nil {
			t.Fatal(s, err)
		}
		nearLosses(t, s.Line(), lossesOf(t, d, l), want)
		if p := d.Plan(); p == nil || !strings.Contains(p.String(), "from the best") || p.Bound > p.Step {
			t.Errorf("%s: plan %v", s, p)
		}
		d.Close()
	}
	savedPlan(t, want)
}

func nearLosses(t *testing.T, what string, got, want []float64) {
	t.Helper()
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-5*math.Abs(want[i]) {
			t.Errorf("%s: step %d: loss %g, want %g", what, i, got[i], want[i])
		}
	}
}

// savedPlan plans, saves, reads and trains; another program is refused.
func savedPlan(t *testing.T, want []float64) {
	m, l := towers(t)
	ids, score := galley.Type{DType: array.I32, Shape: array.Shape{16}},
		galley.Type{DType: array.F32, Shape: array.Shape{16}}
	c := galley.PlanConfig{Loss: galley.MeanSquares, Optimizer: optim.AdamW{},
		Batch:   []galley.Type{ids, ids, score},
		Devices: 4, Strategy: galley.Strategy{TP: 2}}
	p, err := galley.Plan(m, "", c)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plan.yaml")
	if err := p.Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := galley.LoadPlan(path, m, c)
	if err != nil {
		t.Fatal(err)
	}
	planned, err := again.Apply(m, optim.AdamW{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := galley.ToStatic(planned, l, galley.MeanSquares, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	nearLosses(t, "saved plan", lossesOf(t, d, l), want)
	if taken := d.Trainer().MemoryAllocated(); len(taken) != p.Strategy.Devices() || max0(taken) != p.Bytes {
		t.Errorf("devices took %v bytes, planned was %d", taken, p.Bytes)
	}
	c.Batch = []galley.Type{ids, ids, {DType: array.F64, Shape: array.Shape{16}}}
	c.Loss = func(out, _ []*galley.Tensor) *galley.Tensor { return op.Mean(out[0]) }
	if _, err := galley.LoadPlan(path, m, c); err == nil || !strings.Contains(err.Error(), "make a new one") {
		t.Errorf("a plan for another loss: %v", err)
	}
}

func max0(list []int) (most int) {
	for _, n := range list {
		most = max(most, n)
	}
	return most
}

// TestAutoEngine: an engine searches for batches of the types that it is told; without them, and with a plan
// of layers, it says what is missing.
func TestAutoEngine(t *testing.T) {
	m, l := towers(t)
	c := galley.EngineConfig{Model: m, Loss: galley.MeanSquares, Strategy: &galley.Strategy{Auto: 2}}
	if _, err := galley.NewEngine(c); err == nil || !strings.Contains(err.Error(), "want the types of a batch") {
		t.Errorf("no types: %v", err)
	}
	b, err := l.Batch(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range b {
		c.Batch = append(c.Batch, galley.Type{DType: a.DType(), Shape: a.Shape()})
	}
	e, err := galley.NewEngine(c)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	h, err := e.Fit(t.Context(), l, galley.FitConfig{Steps: 4})
	if err != nil || len(h.Steps) != 4 || e.Plan() == nil {
		t.Errorf("%v: %+v", err, h)
	}
	if _, err := galley.NewTrainer(galley.TrainerConfig{Device: device(t), Params: m.Params(),
		Strategy: &galley.Strategy{Auto: 2},
		Loss:     func(b []*galley.Tensor) *galley.Tensor { return op.Mean(m.Forward(b...)[0]) }}); err == nil ||
		!strings.Contains(err.Error(), "has to be searched") {
		t.Errorf("a trainer: %v", err)
	}
}

// images is batches of pictures with labels.
type images struct{}

func (images) Len() int { return 4 }

func (images) Batch(i int) ([]array.Array, error) {
	x, y := array.New(array.F32, 8, 3, 6, 6), array.New(array.I32, 8)
	for k := range x.Len() {
		array.Data[float32](x)[k] = float32(uint32(k+i+1)*2654435761)/(1<<31) - 1
	}
	for k := range y.Len() {
		array.Data[int32](y)[k] = int32((3*k + i) % 4)
	}
	return []array.Array{x, y}, nil
}

// picture returns a convolution with buffers and drawn numbers, which plans must leave as they are.
func picture(t *testing.T) galley.Model {
	t.Helper()
	in := nn.NewInit(nn.Config{Scope: device(t).NewSession(), Seed: 5})
	conv := nn.NewConv2D(in.At("conv"), 3, 8, 3, op.ConvConfig{Padding: []int{1, 1}})
	norm, drop := nn.NewBatchNorm(in.At("norm"), 8, nn.BatchNormConfig{}), nn.NewDropout(in.At("drop"), 0.25)
	head := nn.NewLinear(in.At("head"), 8, 4)
	return galley.ModelFunc(in.Params(), func(b []*galley.Tensor) []*galley.Tensor {
		x := op.Mean(op.ReLU(norm.Forward(conv.Forward(b[0]))), 2, 3)
		return []*galley.Tensor{head.Forward(drop.Forward(x))}
	})
}

// TestAutoBuffers: plans of a program with buffers and dropout train as one device does.
func TestAutoBuffers(t *testing.T) {
	if testing.Short() {
		t.Skip("short: a search takes seconds, and runs by itself")
	}
	var want []float64
	for _, s := range []*galley.Strategy{nil, {Auto: 2}, {Auto: 2, TP: 2}, {Auto: 4, DP: 2, TP: 2}} {
		d, err := galley.ToStatic(picture(t), images{}, galley.CrossEntropy, optim.AdamW{}, s)
		if err != nil {
			t.Fatal(s, err)
		}
		got := lossesOf(t, d, images{})
		if want == nil {
			want = got
		}
		nearLosses(t, fmt.Sprint(s), got, want)
		d.Close()
	}
}
