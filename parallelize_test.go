package galley_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/parallel"
)

// megatron returns the plan that people write for a transformer.
func megatron() []parallel.LayerPlan {
	return []parallel.LayerPlan{
		parallel.On("model.embed_tokens", parallel.RowWise{}),
		parallel.On("*.self_attn.[qkv]_proj", parallel.ColWise{}),
		parallel.On("*.self_attn.o_proj", parallel.RowWise{}),
		parallel.On("*.mlp.gate_proj", parallel.ColWise{}), parallel.On("*.mlp.up_proj", parallel.ColWise{}),
		parallel.On("*.mlp.down_proj", parallel.RowWise{}),
	}
}

func TestParallelize(t *testing.T) {
	sequence := append(megatron(),
		parallel.On("model.embed_tokens", parallel.SequenceParallelBegin{}),
		parallel.On("*.self_attn", parallel.SequenceParallelDisable{}), parallel.On("*.mlp",
			parallel.SequenceParallelDisable{}),
		parallel.On("model.norm", parallel.SequenceParallelEnd{}))
	for name, p := range map[string]parallel.Plan{
		"tp2":      {Strategy: galley.Strategy{TP: 2}, Layers: megatron()},
		"dp2 tp2":  {Strategy: galley.Strategy{DP: 2, TP: 2, Zero: 1}, Layers: megatron()},
		"one":      {Layers: megatron()},
		"sequence": {Strategy: galley.Strategy{TP: 2}, Layers: sequence},
		"gathered": {Strategy: galley.Strategy{TP: 2, DP: 2},
			Layers: []parallel.LayerPlan{parallel.On("*.up_proj", parallel.ColWise{Gather: true}),
				parallel.On("model.embed_tokens", parallel.ColWise{})}},
		"prepared": {Strategy: galley.Strategy{TP: 2, DP: 2},
			Layers: []parallel.LayerPlan{parallel.On("*.mlp", parallel.PrepareInput{Sharding: "@[dp,_,tp]"},
				parallel.PrepareOutput{Sharding: "@[dp,tp,_]"}), parallel.On("*.input_layernorm",
				parallel.SequenceParallelEnable{})}},
		"annotated": {Strategy: galley.Strategy{TP: 2}, Annotations: annotations(t, "*.q_proj.weight=@[_,tp]")},
		"split": {Strategy: galley.Strategy{PP: 3, TP: 2, Micro: 4}, Layers: megatron(),
			Split: []parallel.SplitPoint{{Layer: "model.layers.2"},
				{Layer: "model.layers.1", At: parallel.Beginning}}},
		"split inside": {Strategy: galley.Strategy{PP: 2},
			Split: []parallel.SplitPoint{{Layer: "model.layers.1.self_attn"}}},
	} {
		t.Run(name, func(t *testing.T) {
			model, err := galley.Parallelize(galley.Language(smallModel(t, device(t))), adamW(), p)
			if err != nil {
				t.Fatal(err)
			}
			d, err := galley.ToStatic(model, windows(t), galley.CrossEntropy, model.Optimizer, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			checkStatic(t, d)
		})
	}
}

func annotations(t *testing.T, texts ...string) (list []galley.Annotation) {
	t.Helper()
	for _, text := range texts {
		a, err := mesh.ParseAnnotation(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, a)
	}
	return list
}

// TestParallelizeOwnModel plans a network of your own, without marks: weights are split and its stages cut by
// layers' names.
func TestParallelizeOwnModel(t *testing.T) {
	build := func(d *galley.Device) galley.Model {
		in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 5, DType: array.F64})
		up, down, head := nn.NewLinear(in.At("up"), 6, 10), nn.NewDense(in.At("down"), 10,
			6), nn.NewLinear(in.At("head"), 6, 3)
		// A weight that is turned before it is used, with a name that looks like a batch's.
		turned := in.At("batch0").Param("weight", array.Shape{6, 6}, nn.Normal(0.3))
		return galley.ModelFunc(in.Params(), func(x []*galley.Tensor) []*galley.Tensor {
			h := op.Add(x[0], down.Forward(op.Tanh(up.Forward(x[0]))))
			return []*galley.Tensor{head.Forward(op.MatMul(h, op.Transpose(turned.Value, 1, 0)))}
		})
	}
	x, y := array.New(array.F64, 8, 6), array.New(array.F64, 8, 3)
	for i := range x.Len() {
		x.Set(i, float64(i*i%13)/7-1)
	}
	for i := range y.Len() {
		y.Set(i, float64(i%5)/3)
	}
	losses := func(p *parallel.Plan) (list []float64) {
		model := build(device(t))
		if p != nil {
			var err error
			if model, err = galley.Parallelize(model, nil, *p); err != nil {
				t.Fatal(err)
			}
		}
		d, err := galley.ToStatic(model, nil, galley.MeanSquares, optim.SGD{Momentum: 0.9}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for range 4 {
			r, err := d.Run(t.Context(), x, y)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, r.Loss, r.Metrics.GradNorm)
		}
		return list
	}
	want := losses(nil)
	plan := []parallel.LayerPlan{parallel.On("up", parallel.ColWise{}), parallel.On("down", parallel.RowWise{}),
		parallel.On("batch0", parallel.RowWise{}, parallel.PrepareInput{Sharding: "@[dp,tp]"})}
	for _, p := range []parallel.Plan{
		{Strategy: galley.Strategy{TP: 2}, Layers: plan}, {Strategy: galley.Strategy{TP: 3, DP: 2, Zero: 3},
			Layers: plan},
		{Strategy: galley.Strategy{PP: 3, Micro: 4},
			Split: []parallel.SplitPoint{{Layer: "up"}, {Layer: "head", At: parallel.Beginning}}},
		{Strategy: galley.Strategy{PP: 2, Micro: 2},
			Split: []parallel.SplitPoint{{Layer: "batch0", At: parallel.Beginning}}},
	} {
		near(t, p.Strategy.String(), losses(&p), want)
	}
}

func TestParallelizeRefuses(t *testing.T) {
	model := galley.Language(smallModel(t, device(t)))
	for _, c := range []struct {
		p    parallel.Plan
		want string
	}{
		{parallel.Plan{Layers: []parallel.LayerPlan{parallel.On("*.attention.q_proj", parallel.ColWise{})}},
			"matches no layer: want one like model.layers.0.self_attn.q_proj"},
		{parallel.Plan{Layers: []parallel.LayerPlan{parallel.On("*.q_proj[", parallel.ColWise{})}}, "syntax error"},
		{parallel.Plan{Layers: []parallel.LayerPlan{parallel.On("*.mlp", parallel.ColWise{})}},
			"no weight of its own"},
		{parallel.Plan{Layers: []parallel.LayerPlan{parallel.On("model.norm", parallel.ColWise{})}},
			"want a matrix"},
		{parallel.Plan{Layers: []parallel.LayerPlan{parallel.On("*.q_proj", parallel.ColWise{Axis: "mp"})}},
			"want tp"},
		{parallel.Plan{Annotations: annotations(t, "wte.weight=@[tp,_]")}, "matches no parameter"},
		{
			parallel.Plan{Strategy: galley.Strategy{TP: 2},
				Annotations: annotations(t, "*.q_proj.weight=@[tp]")},
			`annotation *.q_proj.weight=@[tp]: parameter "model.layers.0.self_attn.q_proj.weight" is f64[16,16]`,
		},
		{parallel.Plan{Strategy: galley.Strategy{PP: 2}, Split: []parallel.SplitPoint{{Layer: "layers.1"}}},
			`no such layer: want one like`},
		{parallel.Plan{Strategy: galley.Strategy{PP: 4},
			Split: []parallel.SplitPoint{{Layer: "model.layers.1"}}}, "want 3 split points"},
		{parallel.Plan{Strategy: galley.Strategy{DP: 3, EP: 2}}, "does not divide"},
		{parallel.Plan{Layers: []parallel.LayerPlan{parallel.On("*.mlp", parallel.PrepareInput{Sharding: "@[dp"})}},
			"layer \"model.layers.0.mlp\""},
	} {
		if _, err := galley.Parallelize(model, nil, c.p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
