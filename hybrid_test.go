package galley_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

func trainLosses(t *testing.T, dtype array.DType, s *galley.Strategy, steps int) []float64 {
	t.Helper()
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	m, err := models.New(models.Config{Family: "llama", Vocab: 40, Hidden: 16, Intermediate: 24, Layers: 4,
		Heads: 4, KVHeads: 2, Tied: true, InitStd: 0.2},
		nn.Config{Scope: d.NewSession(), Seed: 3, DType: dtype})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params(), Strategy: s, ClipNorm: 1,
		Optimizer: optim.AdamW{WeightDecay: 0.1}, Schedule: optim.Constant{LR: 1e-2},
		Loss: func(b []*op.Tensor) *op.Tensor {
			n := b[0].Dim(1)
			return m.Loss(op.Narrow(b[0], 1, 0, n-1), op.Narrow(b[0], 1, 1, n))
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var losses []float64
	for i := range steps {
		ids := make([]int32, 8*13)
		for k := range ids {
			ids[k] = int32((k*7 + i*13 + k*k%11) % 40)
		}
		r, err := tr.Step(array.FromSlice(ids, 8, 13))
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, r.Loss, r.GradNorm)
	}
	return losses
}

func TestStrategies(t *testing.T) {
	want := trainLosses(t, array.F64, nil, 4)
	for _, s := range []galley.Strategy{
		{}, {Micro: 4}, {DP: 2}, {DP: 8}, {TP: 2}, {TP: 4}, {DP: 2, TP: 2}, {PP: 2}, {PP: 2, Micro: 4}, {DP: 2,
			TP: 2, PP: 2, Micro: 2},
		{DP: 2, Zero: 1}, {DP: 2, Zero: 2, Micro: 2}, {DP: 2, Zero: 3, Micro: 2}, {DP: 2, TP: 2,
			Zero: 3}, {Recompute: "full"}, {Recompute: "selective"}, {TP: 2, Sequence: true},
		{PP: 2, Schedule: "zbh1", Micro: 4}, {PP: 2, Schedule: "zbv", Micro: 4}, {PP: 2, Schedule: "dualpipev",
			Micro: 4}, {CP: 2, Context: "gather"}, {DP: 2, CP: 3, Context: "gather", Zero: 1},
		{PP: 2, VPP: 2, Schedule: "interleaved", Micro: 4}, {CP: 2},
		{DP: 2, TP: 2, Zero: 3, Overlap: strategy.On},
		{DP: 2, TP: 2, PP: 2, Zero: 2, Micro: 2, Overlap: strategy.On}, {TP: 2,
			CP: 2, Sequence: true, Overlap: strategy.On},
		{Micro: 3}, {DP: 3, Micro: 2}, {DP: 2, Zero: 1, Offload: strategy.Offload{Optimizer: 1}}, {PP: 2, Micro: 2,
			Offload: strategy.Offload{Optimizer: 1, Dir: t.TempDir()}},
		{Offload: strategy.Offload{Optimizer: 0.5}}, {Offload: strategy.Offload{Activations: 1}},
		{Offload: strategy.Offload{Parameters: 1}}, {Micro: 3, Recompute: "full", Offload: strategy.Offload{
			Optimizer: 0.3, Activations: 0.5, Parameters: 0.5}},
		{DP: 2, Zero: 3, Micro: 2, Offload: strategy.Offload{Optimizer: 1, Activations: 1, Parameters: 1,
			Dir: t.TempDir()}},
		{DP: 2, TP: 2, PP: 2, Micro: 4, Schedule: "zbv", Zero: 1, Offload: strategy.Offload{Optimizer: 0.5,
			Activations: 1, Parameters: 0.7}},
		{PP: 2, Micro: 4, Schedule: "zbh1", Offload: strategy.Offload{Activations: 0.6}},
		{DP: 4, Micro: 2, Host: 2, Bucket: 1 << 20}, {DP: 8, Zero: 3, Host: 4, Bucket: 1000, Micro: 2},
		{DP: 4, TP: 2, Zero: 2, Shard: 2, Host: 4, Micro: 2, Overlap: strategy.On},
		{DP: 2, TP: 2, PP: 2, Zero: 1, Micro: 2, Host: 2, Overlap: strategy.Off, Bucket: 1},
		{DP: 4, Zero: 1, Shard: 2, Micro: 2}, {DP: 4, Zero: 2, Shard: 2, Micro: 2}, {DP: 4, Zero: 3, Shard: 2},
		{DP: 2, CP: 2, Zero: 3, Shard: 2}, {DP: 4, TP: 2, PP: 2, Zero: 2, Shard: 2, Micro: 2},
	} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			got := trainLosses(t, array.F64, &s, 4)
			for i := range want {
				if !(math.Abs(got[i]-want[i]) <= 1e-10) {
					t.Fatalf("got %v\nwant %v", got, want)
				}
			}
		})
	}
}
