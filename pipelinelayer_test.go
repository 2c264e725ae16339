package galley_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/parallel"
)

// residual is a layer of your own.
type residual struct {
	norm *nn.RMSNorm
	in   *nn.Linear
	out  *nn.Linear
}

func newResidual(in *nn.Init) parallel.Layer {
	return &residual{nn.NewRMSNorm(in.At("norm"), 12, 1e-6), nn.NewLinear(in.At("in"), 12, 20),
		nn.NewLinear(in.At("out"), 20, 12)}
}

func (r *residual) Forward(x *galley.Tensor) *galley.Tensor {
	return op.Add(x, r.out.Forward(op.Tanh(r.in.Forward(r.norm.Forward(x)))))
}

// tied returns five layers: an embedding, three residual ones, and the embedding again as the head.
func tied() []parallel.Desc {
	embed := func(in *nn.Init) parallel.Layer { return nn.NewEmbedding(in, 40, 12) }
	return []parallel.Desc{
		parallel.SharedLayerDesc{Key: "embed", New: embed},
		parallel.LayerDesc{New: newResidual}, parallel.LayerDesc{Name: "middle",
			New: newResidual}, parallel.LayerDesc{New: newResidual},
		parallel.SharedLayerDesc{Key: "embed", Apply: func(l parallel.Layer,
			x *galley.Tensor) *galley.Tensor {
			return l.(*nn.Embedding).Logits(x)
		}},
	}
}

func pipeline(t *testing.T, s *galley.Strategy, boundaries ...int) (*galley.PipelineLayer, error) {
	t.Helper()
	return galley.NewPipelineLayer(galley.PipelineConfig{Layers: tied(), Loss: galley.CrossEntropy,
		Optimizer: adamW(), Strategy: s, Boundaries: boundaries,
		Init: nn.Config{Scope: device(t).NewSession(), Seed: 4, DType: array.F64}})
}

// plainTied returns the same network by hand with the plain trainer.
func plainTied(t *testing.T) (list []float64) {
	t.Helper()
	d := device(t)
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 4, DType: array.F64})
	embed := nn.NewEmbedding(in.At("embed"), 40, 12)
	layers := []parallel.Layer{newResidual(in.At("1")), newResidual(in.At("middle")), newResidual(in.At("3"))}
	o := adamW()
	tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: in.Params(), Optimizer: o.Optimizer,
		Schedule: o.Schedule, ClipNorm: o.ClipNorm,
		Loss: func(b []*op.Tensor) *op.Tensor {
			x := embed.Forward(b[0])
			for _, l := range layers {
				x = l.Forward(x)
			}
			return op.CrossEntropy(embed.Logits(x), b[1], op.CrossEntropyConfig{})
		}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		r, err := tr.Step(batchOf(t, windows(t), i)...)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r.Loss)
	}
	return list
}

func TestPipelineLayer(t *testing.T) {
	want := plainTied(t)
	for _, c := range []struct {
		s          *galley.Strategy
		boundaries []int
		stages     string
	}{
		{nil, nil, "[0]"}, {&galley.Strategy{PP: 2, Micro: 4}, nil, "[0 2]"}, {&galley.Strategy{PP: 5, Micro: 4},
			nil, "[0 1 2 3 4]"},
		{&galley.Strategy{PP: 2, DP: 2, Zero: 3}, []int{4},
			"[0 4]"}, {&galley.Strategy{PP: 2, DP: 2, Schedule: "zbv", Micro: 4}, []int{1, 3, 4}, "[0 1 3 4]"},
	} {
		t.Run(fmt.Sprint(c.s, c.boundaries), func(t *testing.T) {
			p, err := pipeline(t, c.s, c.boundaries...)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if got := fmt.Sprint(p.Stages()); got != c.stages {
				t.Errorf("stages begin at %v, want %v", got, c.stages)
			}
			var losses []float64
			for i := range 3 {
				r, err := p.TrainBatch(t.Context(), batchOf(t, windows(t), i)...)
				if err != nil {
					t.Fatal(err)
				}
				losses = append(losses, r.Loss)
			}
			// The loss before step 3 is what evaluating its batch tells.
			loss, err := p.EvalBatch(t.Context(), batchOf(t, windows(t), 3)...)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "losses", append(losses, loss), want)
		})
	}
	if names := paramNames(t); !slices.Contains(names, "embed.weight") ||
		!slices.Contains(names, "middle.in.bias") || len(names) != 16 {
		t.Errorf("parameters are %v", names)
	}
}

func paramNames(t *testing.T) (names []string) {
	p, err := pipeline(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range p.Params() {
		names = append(names, x.Name)
	}
	return names
}

func TestPipelineLayerRefuses(t *testing.T) {
	for _, c := range []struct {
		s          *galley.Strategy
		boundaries []int
		want       string
	}{
		{nil, []int{2}, "PP: 2"}, {&galley.Strategy{PP: 3}, []int{2},
			"want 2 boundaries"}, {&galley.Strategy{PP: 3}, []int{3, 2}, "from 1 to 4"},
		{&galley.Strategy{PP: 2}, []int{5}, "from 1 to 4"}, {&galley.Strategy{PP: 2, Layers: []int{1, 4}}, []int{1},
			"leave one of them out"},
		{&galley.Strategy{PP: 6}, nil, "5 layers cannot make 6 stages"},
	} {
		if _, err := pipeline(t, c.s, c.boundaries...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %v: got %v, want %q", c.s, c.boundaries, err, c.want)
		}
	}
	for want, layers := range map[string][]parallel.Desc{"a layer or more": nil,
		`layer 0, "0": want New`: {parallel.LayerDesc{}}} {
		if _, err := galley.NewPipelineLayer(galley.PipelineConfig{Layers: layers}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
