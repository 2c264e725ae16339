package galley_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

const apiSteps = 3

// smallModel returns a llama whose losses every API must reproduce.
func smallModel(t *testing.T, d *galley.Device) models.Model {
	t.Helper()
	m, err := models.New(models.Config{Family: "llama", Vocab: 40, Hidden: 16, Intermediate: 24, Layers: 4,
		Heads: 4, KVHeads: 2, Tied: true, InitStd: 0.2},
		nn.Config{Scope: d.NewSession(), Seed: 3, DType: array.F64})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// windows returns batches of 8 rows of 12 tokens.
func windows(t *testing.T) *data.TokenLoader {
	t.Helper()
	ids := make([]int32, 8*12*5+1)
	for k := range ids {
		ids[k] = int32((k*7 + k*k%11) % 40)
	}
	s, err := data.NewSampler(ids, data.SamplerConfig{Batch: 8, Seq: 12, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return data.Tokens(s)
}

func batchOf(t *testing.T, l galley.Loader, i int) []array.Array {
	t.Helper()
	b, err := l.Batch(i)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// plain returns the plain trainer's losses on one device, and the loss and logits of batch 9 after them.
func plain(t *testing.T) (losses []float64, eval float64, logits array.Array) {
	t.Helper()
	d := device(t)
	m := smallModel(t, d)
	tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params(), ClipNorm: 1,
		Optimizer: optim.AdamW{WeightDecay: 0.1}, Schedule: optim.Constant{LR: 1e-2},
		Loss: func(b []*op.Tensor) *op.Tensor { return m.Loss(b[0], b[1]) }})
	if err != nil {
		t.Fatal(err)
	}
	for i := range apiSteps {
		r, err := tr.Step(batchOf(t, windows(t), i)...)
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, r.Loss)
	}
	s, b := d.NewSession(), batchOf(t, windows(t), 9)
	x, y := s.Tensor(b[0]), s.Tensor(b[1])
	loss, err := galley.Read(m.Loss(x, y))
	if err != nil {
		t.Fatal(err)
	}
	if logits, err = galley.Read(m.Forward(x)); err != nil {
		t.Fatal(err)
	}
	return losses, loss.At(0), logits
}

func adamW() *galley.Optimizer {
	return &galley.Optimizer{Optimizer: optim.AdamW{WeightDecay: 0.1}, Schedule: optim.Constant{LR: 1e-2},
		ClipNorm: 1}
}

func near(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d numbers, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= 1e-10) {
			t.Fatalf("%s: number %d: got %v, want %v", what, i, got[i], want[i])
		}
	}
}

// checkStatic trains, evaluates and predicts with a static model and compares with the plain trainer.
func checkStatic(t *testing.T, s *galley.DistModel) {
	t.Helper()
	ctx := context.Background()
	wantLosses, wantEval, wantLogits := plain(t)
	var losses []float64
	for i := range apiSteps {
		r, err := s.Run(ctx, batchOf(t, windows(t), i)...)
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, r.Loss)
	}
	near(t, "losses", losses, wantLosses)
	if err := s.Eval(); err != nil {
		t.Fatal(err)
	}
	batch := batchOf(t, windows(t), 9)
	r, err := s.Run(ctx, batch...)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "evaluation", []float64{r.Loss}, []float64{wantEval})
	s.Predict()
	if r, err = s.Run(ctx, batch[0]); err != nil {
		t.Fatal(err)
	}
	near(t, "logits", r.Outputs[0].Float64s(), wantLogits.Float64s())
}

func TestToStatic(t *testing.T) {
	for name, s := range map[string]*galley.Strategy{
		"one device": nil, "micro": {Micro: 3}, "dp2": {DP: 2}, "tp2": {TP: 2}, "pp2": {PP: 2,
			Micro: 4}, "zero3": {DP: 2, TP: 2, Zero: 3}, "sp": {TP: 2, Sequence: true},
		"hybrid": {DP: 2, TP: 2, PP: 2}, "zbv": {PP: 2, Schedule: "zbv",
			Micro: 4}, "cp2": {CP: 2}, "interleaved": {PP: 2, VPP: 2, Schedule: "interleaved", Micro: 4},
	} {
		if testing.Short() && name != "one device" && name != "hybrid" {
			continue // the others compile and run in the same way
		}
		t.Run(name, func(t *testing.T) {
			d, err := galley.ToStatic(galley.Language(smallModel(t, device(t))), windows(t), galley.CrossEntropy,
				adamW(), s)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			checkStatic(t, d)
		})
	}
}

// TestEvaluateFirst evaluates before the first step, when parameters are not on the devices yet, and with
// fewer rows than micro-batches.
func TestEvaluateFirst(t *testing.T) {
	ctx, batch := context.Background(), batchOf(t, windows(t), 0)
	var want []float64
	for _, s := range []*galley.Strategy{nil, {DP: 2, PP: 2, Micro: 4, Zero: 3}} {
		d, err := galley.ToStatic(galley.Language(smallModel(t, device(t))), nil, galley.CrossEntropy, adamW(), s)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		var got []float64
		run := func(rows int) {
			r, err := d.Run(ctx, batch[0].Rows(0, rows), batch[1].Rows(0, rows))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r.Loss)
		}
		for _, rows := range []int{8, 3, 8, 1} {
			if err := d.Eval(); err != nil {
				t.Fatal(err)
			}
			run(rows)
		}
		if err := d.Train(); err != nil {
			t.Fatal(err)
		}
		run(8)
		run(8)
		if want == nil {
			want = got
		}
		near(t, "losses", got, want)
		if got[0] != got[2] || got[4] != got[0] || got[5] == got[0] {
			t.Errorf("losses %v: want evaluation to change nothing and training something", got)
		}
	}
}

func TestToStaticRefuses(t *testing.T) {
	model := galley.Language(smallModel(t, device(t)))
	for _, c := range []struct {
		model galley.Model
		s     *galley.Strategy
		want  string
	}{
		{galley.ModelFunc(nil, nil), nil, "no parameters"},
		{model, &galley.Strategy{Micro: 9}, "want micro=8"},
		{model, &galley.Strategy{PP: 8}, "pp·vpp of 4 or less"},
		{model, &galley.Strategy{DP: 3, EP: 2}, "want ep=1 or dp=4"},
	} {
		if _, err := galley.ToStatic(c.model, windows(t), galley.CrossEntropy, adamW(), c.s); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	d, err := galley.ToStatic(model, windows(t), nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Train(); err == nil || !strings.Contains(err.Error(), "give ToStatic a loss and an optimizer") {
		t.Errorf("got %v", err)
	}
}

func TestBatchesWithoutLabels(t *testing.T) {
	ids := batchOf(t, windows(t), 0)[0]
	for _, loss := range []galley.Loss{galley.CrossEntropy, galley.MeanSquares, nil} {
		for _, s := range []*galley.Strategy{nil, {DP: 2}} {
			d, err := galley.ToStatic(galley.Language(smallModel(t, device(t))), nil, loss, adamW(), s)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			for _, phase := range []func() error{d.Train, d.Eval} {
				if err := phase(); err != nil {
					t.Fatal(err)
				}
				if _, err := d.Run(t.Context(), ids); err == nil ||
					!strings.Contains(err.Error(), "batches are inputs, then labels") {
					t.Errorf("%v: got %v", d.Phase(), err)
				}
				if _, err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "batch: got none") {
					t.Errorf("got %v", err)
				}
			}
		}
	}
}
