package opbyop

import (
	"math"
	"strings"
	"testing"

	"example.com/extend/softcap"
	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/backend/backendtest"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(*testing.T) backend.Backend { return Open() })
}

// losses trains a network, with an op of another module in it, on a backend or the host.
func losses(t *testing.T, b backend.Backend) []float64 {
	t.Helper()
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 1, DType: array.F64})
	up, down := nn.NewLinear(in.At("up"), 4, 8), nn.NewLinear(in.At("down"), 8, 2)
	tr, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Params: in.Params(), Schedule: optim.Constant{LR: 0.01}, Backend: b,
		Loss: func(batch []*galley.Tensor) *galley.Tensor {
			return op.MSELoss(down.Forward(softcap.Softcap(up.Forward(batch[0]), 0.5)), batch[1], "mean")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	x, y := array.New(array.F64, 8, 4), array.New(array.F64, 8, 2)
	for i := range x.Len() {
		array.Data[float64](x)[i] = math.Sin(float64(i))
	}
	for i := range y.Len() {
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

func TestTrains(t *testing.T) {
	want := losses(t, nil)
	for name, b := range map[string]backend.Backend{"op by op": Open(),
		"StableHLO": backendtest.Interpreter(1)} {
		for i, got := range losses(t, b) {
			if math.Abs(got-want[i]) > 1e-12 {
				t.Errorf("%s: step %d: loss %.15g, host %.15g", name, i, got, want[i])
			}
		}
	}
}

// TestStableHLO: a program with an op of another module is text that a compiler takes.
func TestStableHLO(t *testing.T) {
	p, err := galley.Trace("main", []galley.Type{{DType: array.F32, Shape: array.Shape{2, 3}}},
		func(in []*galley.Tensor) []*galley.Tensor { return []*galley.Tensor{softcap.Softcap(in[0], 2)} })
	if err != nil {
		t.Fatal(err)
	}
	text, err := backend.StableHLO(backend.Options{}, p)
	if err != nil || !strings.Contains(text, "stablehlo.tanh") {
		t.Errorf("got %v\n%s", err, text)
	}
}
