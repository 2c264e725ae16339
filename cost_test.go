package galley_test

import (
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/parallel"
)

func typesOf(batch []array.Array) (list []galley.Type) {
	for _, a := range batch {
		list = append(list, ir.TypeOf(a))
	}
	return list
}

func costUnder(t *testing.T, model galley.Model, s *galley.Strategy) *galley.Cost {
	t.Helper()
	d, err := galley.ToStatic(model, nil, galley.CrossEntropy, adamW(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c, err := d.Trainer().Cost(typesOf(batchOf(t, windows(t), 0))...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCost compares what strategies should save with what is planned.
func TestCost(t *testing.T) {
	model := galley.Language(smallModel(t, device(t)))
	one := costUnder(t, model, nil).Devices[0]
	if one.Sent != 0 || one.Collectives != 0 {
		t.Errorf("one device sends %v bytes", one.Sent)
	}
	within := func(what string, got, want, share float64) {
		t.Helper()
		if got < want*(1-share) || got > want*(1+share) {
			t.Errorf("%s: got %v, want about %v", what, got, want)
		}
	}
	weights := float64(one.Weights)
	dp := costUnder(t, model, &galley.Strategy{DP: 2})
	within("flops under dp2", dp.Flops(), one.Flops, 0.05)
	// An all-reduce of all gradients between two devices: each sends as much as there is.
	within("sent under dp2", dp.Devices[0].Sent, weights, 0.02)
	tp := costUnder(t, model, &galley.Strategy{TP: 2})
	within("weights under tp2", float64(tp.Devices[0].Weights), weights/2, 0.1)
	zero := costUnder(t, model, &galley.Strategy{DP: 2, Zero: 1})
	within("slots under zero1", float64(zero.Devices[0].Slots), float64(one.Slots)/2, 0.1)
	pp := costUnder(t, model, &galley.Strategy{PP: 2, Micro: 4})
	if d := pp.Devices[0]; d.Messages != 4 {
		t.Errorf("the first stage sends %d messages, want 4", d.Messages)
	}
}

// TestPlansTakeEffect holds plans to what they say: splitting columns halves weights, gathering costs
// communication.
func TestPlansTakeEffect(t *testing.T) {
	lone := func(p parallel.Plan) *galley.Cost {
		t.Helper()
		model, err := galley.Parallelize(galley.Language(smallModel(t, device(t))), nil, p)
		if err != nil {
			t.Fatal(err)
		}
		return costUnder(t, model, nil)
	}
	tp := galley.Strategy{TP: 2}
	plain := lone(parallel.Plan{Strategy: tp, Layers: megatron()})
	gathered := lone(parallel.Plan{Strategy: tp,
		Layers: append(megatron(), parallel.On("*.up_proj", parallel.PrepareOutput{Sharding: "@[dp,_,_]"}))})
	if gathered.Devices[0].Collectives < plain.Devices[0].Collectives+4 {
		t.Errorf("gathering the results of 4 layers: %d collectives, without %d", gathered.Devices[0].Collectives,
			plain.Devices[0].Collectives)
	}
	rows := lone(parallel.Plan{Strategy: tp,
		Layers: []parallel.LayerPlan{parallel.On("*.[qkv]_proj", parallel.RowWise{})}})
	if rows.Sent() <= plain.Sent() {
		t.Errorf("splitting queries by rows sends %v bytes, by columns %v: want more", rows.Sent(), plain.Sent())
	}
	whole := lone(parallel.Plan{Strategy: tp,
		Annotations: annotations(t, "*_proj.weight=@[_,_]", "*.embed_tokens.weight=@[_,_]")})
	if w := whole.Devices[0].Weights; w <= plain.Devices[0].Weights {
		t.Errorf("weights kept whole take %d bytes, split %d", w, plain.Devices[0].Weights)
	}
}
