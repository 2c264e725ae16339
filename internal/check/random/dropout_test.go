package random

import (
	"context"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// dropping returns two layers with dropout behind the first.
func dropping(s op.Scope) (Model, error) {
	in := nn.NewInit(nn.Config{Scope: s, DType: array.F64, Seed: 1})
	one, two, drop := nn.NewLinear(in.At("one"), 5, 7), nn.NewLinear(in.At("two"), 7, 4), nn.NewDropout(in, 0.4)
	return Model{Params: in.Params(), Loss: func(b []*op.Tensor) *op.Tensor {
		x := op.Mark(drop.Forward(op.Tanh(one.Forward(op.Mark(b[0], nn.LayerMark(0))))), nn.LayerMark(1))
		return op.Mean(op.Square(two.Forward(x)))
	}}, in.Err()
}

// TestDropout: masks are those of one device however a batch is cut, others at each step.
func TestDropout(t *testing.T) {
	batch := []array.Array{wave(1, 7, 5)}
	sameAsOne(t, dropping, [][]array.Array{batch, batch, batch},
		append([]galley.Strategy{{DP: 3, Micro: 3, Recompute: "full"}}, spread...)...)
	want, err := Train(dropping, nil, [][]array.Array{batch, batch})
	if err != nil {
		t.Fatal(err)
	}
	if e := off(want.Losses[0], want.Losses[1]); e < 1e-2 {
		t.Errorf("losses of two steps are %v: the masks are the same", want.Losses)
	}
}

// familyRates is the rates that a family has, one at a time.
var familyRates = map[string][]models.Dropout{
	"gpt2": {{Embedding: 0.1}, {Residual: 0.2}, {Attention: 0.3}}, "llama": {{Attention: 0.3}},
	"phi3": {{Embedding: 0.1}, {Residual: 0.2}, {Attention: 0.3}}, "deepseek_v3": {{Attention: 0.3}},
	"bert": {{Residual: 0.2}, {Attention: 0.3}},
}

// TestFamiliesDrop: a family trains with its configured rates, alike under strategies, and evaluates without.
func TestFamiliesDrop(t *testing.T) {
	for _, family := range []string{"gpt2", "llama", "phi3", "deepseek_v3", "bert"} {
		c := models.Config{Family: family, Vocab: 23, Hidden: 16, Intermediate: 24, Layers: 2, Heads: 4, KVHeads: 2,
			Positions: 32, InitStd: 0.3}
		switch family {
		case "gpt2", "bert":
			c.KVHeads, c.TokenTypes = 4, 2
		case "deepseek_v3":
			c.KVHeads, c.Latent = 4, models.Latent{QRank: 6, KVRank: 8, Plain: 4, Turned: 2, Value: 3}
			c.HeadDim, c.Experts, c.ExpertsPerToken = 6, 4, 2
		}
		batches := [][]array.Array{{labels(23, 0, 6, 13)}, {labels(21, 0, 6, 13)}}
		plain, err := Train(language(c), nil, batches)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range familyRates[family] {
			c.Dropout = d
			dropped, err := Train(language(c), nil, batches)
			if err != nil {
				t.Fatal(err)
			}
			if off(plain.Losses[0], dropped.Losses[0]) < 1e-6 {
				t.Errorf("%s: the first loss is %v with %+v, and %v without", family, dropped.Losses[0], d,
					plain.Losses[0])
			}
		}
		c.Dropout = models.Dropout{Embedding: 0.1, Residual: 0.2, Attention: 0.3}
		sameAsOne(t, language(c), batches, galley.Strategy{DP: 2, Micro: 3}, galley.Strategy{TP: 2},
			galley.Strategy{PP: 2, Micro: 2, Schedule: "zbh1"}, galley.Strategy{DP: 2, TP: 2, Sequence: true,
				Recompute: "selective"})
	}
}

// TestZigzagDrops: what devices share in zigzag order is cleared where it would be in order, in the stream
// and in attention's weights.
func TestZigzagDrops(t *testing.T) {
	for _, family := range []string{"gpt2", "llama"} {
		c := models.Config{Family: family, Vocab: 23, Hidden: 16, Intermediate: 24, Layers: 2, Heads: 4, KVHeads: 4,
			Positions: 32, InitStd: 0.3, Dropout: models.Dropout{Embedding: 0.1, Residual: 0.2, Attention: 0.3}}
		batches := [][]array.Array{{labels(23, 0, 4, 13)}, {labels(21, 0, 4, 13)}}
		want, err := Train(language(c), nil, batches)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []galley.Strategy{{CP: 2}, {CP: 3, DP: 2, Micro: 2}, {CP: 2, Context: "ulysses"}} {
			build := func(scope op.Scope) (Model, error) {
				m, err := models.New(c, nn.Config{Scope: scope, DType: array.F64, Seed: 1})
				if err != nil {
					return Model{}, err
				}
				params := m.Params()
				if m, _, err = galley.Arrange(m, s, 12); err != nil {
					return Model{}, err
				}
				return Model{Params: params, Loss: func(b []*op.Tensor) *op.Tensor {
					return m.Loss(op.Narrow(b[0], 1, 0, 12), op.Narrow(b[0], 1, 1, 13))
				}}, nil
			}
			got, err := Train(build, &s, batches)
			if err == nil {
				err = got.Compare(want, 1e-9)
			}
			if err != nil {
				t.Errorf("%s, %v: %v", family, s, err)
			}
		}
	}
}

// TestEvaluationDropsNothing: evaluation is the same twice, on one device and on many, and not the loss of
// training.
func TestEvaluationDropsNothing(t *testing.T) {
	batch := []array.Array{wave(1, 6, 5)}
	var want float64
	for _, s := range []*galley.Strategy{nil, {DP: 2, Micro: 2}} {
		d := galley.CPU(galley.Config{Threads: 1})
		defer d.Close()
		m, err := dropping(d.NewSession())
		if err != nil {
			t.Fatal(err)
		}
		tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params, Loss: m.Loss, Strategy: s})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		e := tr.NewEvaluator()
		defer e.Close()
		for range 2 {
			got, err := e.Mean(context.Background(), func(i int) []array.Array {
				if i == 0 {
					return batch
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if want == 0 {
				want = got
			}
			if off(got, want) > 1e-12 {
				t.Errorf("evaluation is %v, want %v", got, want)
			}
		}
		step, err := tr.Step(batch...)
		if err != nil {
			t.Fatal(err)
		}
		if off(step.Loss, want) < 1e-3 {
			t.Errorf("training's loss is %v, that of evaluation %v", step.Loss, want)
		}
	}
}

// TestStrategyRefusals: what a strategy would ignore is an error.
func TestStrategyRefusals(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	m, err := dropping(d.NewSession())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params, Loss: m.Loss,
		Mode: galley.Eager, Strategy: &galley.Strategy{DP: 2}}); err == nil {
		t.Error("an eager trainer takes a strategy, which it cannot follow")
	}
	if _, err := Train(dropping, &galley.Strategy{TP: 2}, [][]array.Array{{wave(1, 6, 5)}}); err == nil {
		t.Error("tp=2 splits no parameter, without a word")
	}
}
