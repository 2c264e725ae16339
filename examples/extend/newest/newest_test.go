package newest

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/parallel"
	"github.com/galley-ml/galley/strategy"
)

type block struct{ up, down *nn.Linear }

func newBlock(in *nn.Init) parallel.Layer {
	return &block{nn.NewLinear(in.At("up"), 4, 8), nn.NewLinear(in.At("down"), 8, 4)}
}

func (b *block) Forward(x *galley.Tensor) *galley.Tensor {
	return op.Add(x, b.down.Forward(op.Tanh(b.up.Forward(x))))
}

func mse(outputs, labels []*galley.Tensor) *galley.Tensor {
	return op.MSELoss(outputs[0], labels[0], "mean")
}

func losses(t *testing.T, s *galley.Strategy) []float64 {
	t.Helper()
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	p, err := galley.NewPipelineLayer(galley.PipelineConfig{
		Layers: []parallel.Desc{parallel.LayerDesc{New: newBlock}, parallel.LayerDesc{New: newBlock},
			parallel.LayerDesc{New: newBlock}, parallel.LayerDesc{New: newBlock}},
		Init:      nn.Config{Scope: d.NewSession(), Seed: 1, DType: array.F64},
		Loss:      mse,
		Optimizer: &galley.Optimizer{Optimizer: optim.AdamW{}, Schedule: optim.Constant{LR: 0.01}}, Strategy: s,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	x, y := array.New(array.F64, 12, 4), array.New(array.F64, 12, 4)
	for i := range x.Len() {
		array.Data[float64](x)[i], array.Data[float64](y)[i] = math.Sin(float64(i)), math.Cos(float64(3*i))
	}
	var list []float64
	for range 4 {
		m, err := p.TrainBatch(context.Background(), x, y)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m.Loss)
	}
	return list
}

// TestTrains: the losses are those of one device.
func TestTrains(t *testing.T) {
	want := losses(t, nil)
	for _, s := range []galley.Strategy{
		{PP: 2, Micro: 4, Schedule: Name}, {PP: 4, Micro: 6, Schedule: Name},
		{PP: 2, DP: 2, Micro: 3, Schedule: Name, Zero: 2},
	} {
		for i, got := range losses(t, &s) {
			if math.Abs(got-want[i]) > 1e-12 {
				t.Errorf("%v: step %d: loss %.15g, one device %.15g", s, i, got, want[i])
			}
		}
	}
}

// TestMistakes: what is no schedule is refused when it is registered, by what is wrong with it.
func TestMistakes(t *testing.T) {
	late := func(c strategy.ScheduleConfig) *strategy.Schedule { // backward before forward
		s := build(c)
		for _, r := range s.Ranks {
			r[0], r[len(r)-1] = r[len(r)-1], r[0]
		}
		return s
	}
	stuck := func(c strategy.ScheduleConfig) *strategy.Schedule { // ranks that wait for each other
		s := build(c)
		if r := s.Ranks[0]; c.Ranks > 1 { // the first rank wants the oldest backward before its second forward
			s.Ranks[0] = slices.Concat(r[:1], r[len(r)-1:], r[1:len(r)-1])
		}
		return s
	}
	short := func(c strategy.ScheduleConfig) *strategy.Schedule { // a micro-batch is left out
		s := build(c)
		s.Ranks[0] = s.Ranks[0][1:]
		return s
	}
	for _, c := range []struct {
		class strategy.ScheduleClass
		build func(strategy.ScheduleConfig) *strategy.Schedule
		want  string
	}{
		{strategy.ScheduleClass{Name: Name, Chunks: 1}, build, "there is a schedule of that name"},
		{strategy.ScheduleClass{Name: "late", Chunks: 1}, late, "want it after"},
		{strategy.ScheduleClass{Name: "stuck", Chunks: 1}, stuck, "deadlock"},
		{strategy.ScheduleClass{Name: "short", Chunks: 1}, short, "missing 0F0"},
		{strategy.ScheduleClass{Name: "vee", Chunks: 2, Vee: true}, build, "1 stages"},
		{strategy.ScheduleClass{Name: "two words", Chunks: 1}, build, "want a name"},
	} {
		if err := strategy.RegisterSchedule(c.class, c.build); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.class.Name, err, c.want)
		}
	}
	_, err := (strategy.Strategy{PP: 2, Micro: 2, Schedule: "newes"}).Pipeline()
	if err == nil || !strings.Contains(err.Error(), "did you mean newest?") {
		t.Errorf("a wrong name: got %v, want the nearest", err)
	}
}
