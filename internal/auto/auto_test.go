package auto_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/auto"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/executor/tapes"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

func floats(shape ...int) ir.Type { return ir.Type{DType: array.F32, Shape: shape} }
func ids(shape ...int) ir.Type    { return ir.Type{DType: array.I32, Shape: shape} }

// program is a loss, and the types of its batches.
type program struct {
	name  string
	batch []ir.Type
	build func(in *nn.Init) func(b []*op.Tensor) *op.Tensor
}

func (p program) config(m auto.Machine) auto.Config {
	in := nn.NewInit(nn.Config{})
	loss := p.build(in)
	return auto.Config{Run: executor.Config{Params: in.Params(), Loss: loss, Optimizer: optim.AdamW{}},
		Batch: p.batch, Machine: m, Plan: tapes.Plan}
}

var mlp = program{"mlp", []ir.Type{floats(16, 128), floats(16, 128)},
	func(in *nn.Init) func(b []*op.Tensor) *op.Tensor {
		up, down := nn.NewLinearNoBias(in.At("a"), 128, 512), nn.NewLinearNoBias(in.At("b"), 512, 128)
		return func(b []*op.Tensor) *op.Tensor {
			return op.MSELoss(down.Forward(op.ReLU(up.Forward(b[0]))), b[1], "mean")
		}
	}}

var lookup = program{"lookup", []ir.Type{ids(32), ids(32)},
	func(in *nn.Init) func(b []*op.Tensor) *op.Tensor {
		table, head := nn.NewEmbedding(in.At("table"), 4096, 32), nn.NewLinearNoBias(in.At("head"), 32, 8)
		return func(b []*op.Tensor) *op.Tensor {
			return op.CrossEntropy(head.Forward(op.Tanh(table.Forward(b[0]))), b[1], op.CrossEntropyConfig{})
		}
	}}

var image = program{"image", []ir.Type{floats(8, 3, 8, 8), ids(8)},
	func(in *nn.Init) func(b []*op.Tensor) *op.Tensor {
		conv := nn.NewConv2D(in.At("conv"), 3, 16, 3, op.ConvConfig{Padding: []int{1, 1}})
		head := nn.NewLinearNoBias(in.At("head"), 16, 8)
		return func(b []*op.Tensor) *op.Tensor {
			x := op.Mean(op.ReLU(conv.Forward(b[0])), 2, 3)
			return op.CrossEntropy(head.Forward(x), b[1], op.CrossEntropyConfig{})
		}
	}}

func cores(devices int) auto.Machine { return auto.Cores(plan.UsualHost(2), devices, 2, 1e9) }

// TestFindIsTheBest: what is found is within 5 % of the best of all candidates of the same space, and never
// better than it, since all were tried.
func TestFindIsTheBest(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it prices whole spaces")
	}
	for _, p := range []program{mlp, lookup, image} {
		c := p.config(cores(2))
		c.Pinned = strategy.Strategy{Micro: 1, Recompute: strategy.None}
		best, err := auto.Try(c)
		if err != nil {
			t.Fatal(p.name, err)
		}
		found, err := auto.Find(c)
		if err != nil {
			t.Fatal(p.name, err)
		}
		if r := found.Seconds / best.Seconds; r > 1.05 || r < 0.995 {
			t.Errorf(
				"%s: found %g s, the best of %d is %g s\n%s",
				p.name,
				found.Seconds,
				best.Priced,
				best.Seconds,
				found,
			)
		}
		if found.Priced >= best.Priced || found.Bound > found.Seconds {
			t.Errorf(
				"%s: priced %d of %d; bound %g of %g",
				p.name,
				found.Priced,
				best.Priced,
				found.Bound,
				found.Seconds,
			)
		}
		if n, err := auto.Count(c); err != nil || n != best.Priced {
			t.Errorf("%s: %d candidates were counted, %d tried: %v", p.name, n, best.Priced, err)
		}
	}
}

// TestMemoryDecides: a table that no device can hold is split, and where nothing fits the error says what is
// short.
func TestMemoryDecides(t *testing.T) {
	if testing.Short() {
		t.Skip("a search of its own: TestDataParallelismStays runs the same")
	}
	c := lookup.config(auto.Cores(plan.UsualHost(2), 4, 2, 0))
	c.Pinned = strategy.Strategy{Micro: 1}
	whole := 3.0 * 4096 * 32 * 4 // with both of AdamW's slots
	c.Machine.Memory = whole
	p, err := auto.Find(c)
	if err != nil {
		t.Fatal(err)
	}
	if p.Peak > c.Machine.Memory {
		t.Errorf("%s takes %g bytes, there are %g", p.Strategy, p.Peak, c.Machine.Memory)
	}
	if p.Weights[0].IsWhole() && p.Strategy.Zero == 0 {
		t.Errorf("%s holds the table whole:\n%s", p.Strategy, p)
	}
	c.Machine.Memory = whole / 16
	if _, err := auto.Find(c); err == nil || !strings.Contains(err.Error(), "the one that needs least") {
		t.Errorf("a sixteenth of the table's memory: %v", err)
	}
}

// TestIdle: an axis that was asked for and splits nothing is said to be idle, as are devices left over.
func TestIdle(t *testing.T) {
	odd := program{"odd", []ir.Type{floats(1, 3), floats(1, 3)},
		func(in *nn.Init) func(b []*op.Tensor) *op.Tensor {
			l := nn.NewLinearNoBias(in.At("l"), 3, 3)
			return func(b []*op.Tensor) *op.Tensor { return op.MSELoss(l.Forward(b[0]), b[1], "mean") }
		}}
	c := odd.config(cores(4))
	p, err := auto.Find(c)
	if err != nil || p.Strategy.Devices() != 1 || !strings.Contains(p.String(), "3 of 4 devices are idle") {
		t.Errorf("%v\n%s", err, p)
	}
	c.Pinned = strategy.Strategy{TP: 2}
	if p, err = auto.Find(c); err != nil || !strings.Contains(p.String(), "axis tp is idle") {
		t.Errorf("%v\n%s", err, p)
	}
}

// TestPinned: what is said stays, of the strategy and of parameters.
func TestPinned(t *testing.T) {
	c := mlp.config(cores(4))
	c.Pinned = strategy.Strategy{DP: 2, TP: 2, Zero: 1, Micro: 2}
	c.Run.Annotations = []mesh.Annotation{
		{Pattern: "b.*", Sharding: mesh.Closed(mesh.Split(mesh.On("tp"), nil))},
	}
	p, err := auto.Find(c)
	if err != nil {
		t.Fatal(err)
	}
	s := p.Strategy
	if s.DP != 2 || s.TP != 2 || s.Zero != 1 || s.Micro != 2 ||
		!p.Weights[1].Equal(mesh.Split(mesh.On("tp"), nil)) {
		t.Errorf("%s, %v", s, p.Weights)
	}
}

// TestFileComesBack: a plan's file reads as the candidate that was found, and not for another program.
func TestFileComesBack(t *testing.T) {
	c := mlp.config(cores(2))
	p, err := auto.Find(c)
	if err != nil {
		t.Fatal(err)
	}
	f, err := p.File()
	if err != nil {
		t.Fatal(err)
	}
	again, err := auto.Read(f, c.Run, c.Batch)
	if err != nil || again.Strategy.Line() != p.Strategy.Line() || len(again.Weights) != 2 {
		t.Fatal(err, again)
	}
	for i := range again.Weights {
		if !again.Weights[i].Equal(p.Weights[i]) || !again.Inputs[i].Equal(p.Inputs[i]) {
			t.Errorf(
				"tensor %d: %v and %v, want %v and %v",
				i,
				again.Weights[i],
				again.Inputs[i],
				p.Weights[i],
				p.Inputs[i],
			)
		}
	}
	other := image.config(cores(2))
	if _, err := auto.Read(f, other.Run, other.Batch); err == nil ||
		!strings.Contains(err.Error(), "make a new one") {
		t.Errorf("a plan for another program: %v", err)
	}
}

// TestStatisticsStay: a program that takes statistics of its batch is never cut into micro-batches, whose
// statistics are others, and the caller that asks for them gets them.
func TestStatisticsStay(t *testing.T) {
	normed := program{"normed", []ir.Type{floats(64, 32)}, func(in *nn.Init) func(b []*op.Tensor) *op.Tensor {
		l, norm := nn.NewLinearNoBias(in.At("l"), 32, 32), nn.NewBatchNorm(in.At("n"), 32, nn.BatchNormConfig{})
		return func(b []*op.Tensor) *op.Tensor { return op.MSELoss(norm.Forward(l.Forward(b[0])), b[0], "mean") }
	}}
	for _, p := range []program{normed, mlp} {
		c := p.config(cores(2))
		some, err := auto.Count(c)
		if err != nil {
			t.Fatal(err)
		}
		c.Pinned.Micro = 1
		one, err := auto.Count(c)
		if err != nil || (one == some) != (p.name == "normed") {
			t.Errorf("%s: %d candidates, %d without micro-batches: %v", p.name, some, one, err)
		}
	}
	c := normed.config(cores(2))
	c.Pinned.Micro = 2
	if p, err := auto.Find(c); err != nil || p.Strategy.Micro != 2 {
		t.Errorf("micro=2: %v %v", p, err)
	}
}

// TestStages: pipelines are in the space of programs that nobody marked, and what is found for one fits.
func TestStages(t *testing.T) {
	c := mlp.config(cores(2))
	c.Pinned = strategy.Strategy{PP: 2, Micro: 2, Recompute: strategy.None}
	p, err := auto.Find(c)
	if err != nil {
		t.Fatal(err)
	}
	if p.Strategy.PP != 2 || p.Strategy.Devices() != 2 || p.Seconds <= 0 || p.Bound > p.Seconds {
		t.Errorf("%+v\n%s", p.Strategy, p)
	}
	whole, err := auto.PriceOf(c, auto.Candidate{Strategy: strategy.Strategy{DP: 1, TP: 1, PP: 1, Micro: 2},
		Weights: p.Weights, Inputs: p.Inputs})
	if err != nil || p.Peak >= whole.Peak {
		t.Errorf("a device of two takes %g bytes, one alone %g: %v", p.Peak, whole.Peak, err)
	}
}

// TestRowsByAnotherName: data parallelism by the tensor axis is priced as data parallelism is, though ops
// take another time each time. One that loads all of the batch on every device costs that more.
func TestRowsByAnotherName(t *testing.T) {
	h := plan.UsualHost(16)
	h.Spread = 0.2
	for _, p := range []program{mlp, image} {
		c := p.config(auto.Cores(h, 4, 16, 1e9))
		data, err := auto.DataParallel(c)
		if err != nil {
			t.Fatal(err)
		}
		price := func(x auto.Candidate) float64 {
			t.Helper()
			got, err := auto.PriceOf(c, x)
			if err != nil {
				t.Fatal(err)
			}
			return got.Seconds
		}
		rows := data
		rows.Strategy.DP, rows.Strategy.TP = 1, 4
		rows.Inputs = nil
		for _, x := range p.batch {
			s := mesh.Whole(len(x.Shape))
			s.Dims[0] = mesh.On(strategy.TensorAxis)
			rows.Inputs = append(rows.Inputs, s)
		}
		want := price(data)
		if got := price(rows); got != want {
			t.Errorf("%s: rows by tp take %g s, by dp %g s", p.name, got, want)
		}
		if p.name == "mlp" { // whose first gradient needs no sum then: that is another step
			continue
		}
		rows.Inputs[0] = mesh.Whole(len(p.batch[0].Shape))
		more := h.Copy(float64(p.batch[0].Bytes()) * 3 / 4)
		if got := price(rows); got < want+more {
			t.Errorf("%s: the whole batch on every device takes %g s, a quarter %g s: want %g s more", p.name, got,
				want, more)
		}
	}
}

// TestDataParallelismStays: what is found is data parallelism, or priced well below it.
func TestDataParallelismStays(t *testing.T) {
	for _, p := range []program{mlp, lookup, image} {
		c := p.config(cores(2))
		found, err := auto.Find(c)
		if err != nil {
			t.Fatal(err)
		}
		data, err := auto.DataParallel(c)
		if err != nil {
			t.Fatal(err)
		}
		price, err := auto.PriceOf(c, data)
		if err != nil {
			t.Fatal(err)
		}
		same := found.Strategy.Line() == data.Strategy.Line()
		if !same && found.Seconds > 0.97*price.Seconds {
			t.Errorf("%s: %s takes %g s, data parallelism %g s", p.name, found.Strategy, found.Seconds, price.Seconds)
		}
	}
}
