package softcap

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/op/optest"
	"github.com/galley-ml/galley/optim"
)

// TestLaws: gradients against central differences, eager against compiled, StableHLO, every way to split.
func TestLaws(t *testing.T) { optest.Run(t, softcap{}, rowScale{}) }

func TestMistakes(t *testing.T) {
	if err := op.Register(softcap{}); err == nil ||
		!strings.Contains(err.Error(), "there is an op of that name") {
		t.Errorf("registered twice: %v", err)
	}
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	x := d.NewSession().Tensor(array.New(array.F32, 3))
	if _, err := galley.Read(Softcap(x, -1)); err == nil || !strings.Contains(err.Error(), "limit above 0") {
		t.Errorf("a limit of -1: %v", err)
	}
}

// losses trains a small network with both ops and returns its losses.
func losses(t *testing.T, mode galley.Mode, s *galley.Strategy, where ...galley.Annotation) []float64 {
	t.Helper()
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 1, DType: array.F64})
	up, down := nn.NewLinear(in.At("up"), 4, 8), nn.NewLinear(in.At("down"), 8, 2)
	tr, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Params: in.Params(), Schedule: optim.Constant{LR: 0.01}, Mode: mode, Strategy: s,
		Annotations: where,
		Loss: func(batch []*galley.Tensor) *galley.Tensor {
			return op.MSELoss(down.Forward(RowScale(Softcap(up.Forward(batch[0]), 0.5))), batch[1], "mean")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	x, y := array.New(array.F64, 8, 4), array.New(array.F64, 8, 2)
	for i := range array.Data[float64](x) {
		array.Data[float64](x)[i] = math.Sin(float64(i))
	}
	for i := range array.Data[float64](y) {
		array.Data[float64](y)[i] = math.Cos(float64(i))
	}
	var list []float64
	for range 5 {
		m, err := tr.Step(x, y)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m.Loss)
	}
	return list
}

// TestTrains: the same losses op by op, compiled, and on meshes.
func TestTrains(t *testing.T) {
	want := losses(t, galley.Eager, nil)
	if !(want[4] < want[0]) {
		t.Errorf("losses %v do not fall", want)
	}
	columns, err := mesh.ParseAnnotation("up.weight=@[tp,_]")
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]float64{
		"compiled":    losses(t, galley.Static, nil),
		"dp=2":        losses(t, galley.Static, &galley.Strategy{DP: 2}),
		"dp=2, tp=2":  losses(t, galley.Static, &galley.Strategy{DP: 2, TP: 2}, columns),
		"micro, ZeRO": losses(t, galley.Static, &galley.Strategy{DP: 2, Zero: 3, Micro: 2}),
	} {
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-12 {
				t.Errorf("%s: step %d: loss %.15g, eagerly %.15g", name, i, got[i], want[i])
			}
		}
	}
}

// TestParse: a program with the ops prints and reads back.
func TestParse(t *testing.T) {
	p, err := galley.Trace("main", []galley.Type{{DType: array.F32, Shape: array.Shape{2, 3}}},
		func(in []*galley.Tensor) []*galley.Tensor { return []*galley.Tensor{RowScale(Softcap(in[0], 2))} })
	if err != nil {
		t.Fatal(err)
	}
	back, err := galley.Parse(p.String())
	if err != nil {
		t.Fatal(err)
	}
	if back.String() != p.String() || !strings.Contains(p.String(), "example_softcap{limit=2}") {
		t.Errorf("got\n%v\nwant\n%v", back, p)
	}
}
