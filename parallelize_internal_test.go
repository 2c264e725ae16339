package galley

import (
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// TestSides holds columns and rows to the dims that they mean in each kind of layer: they are read off the ops, not off the layers.
func TestSides(t *testing.T) {
	in := nn.NewInit(nn.Config{})
	table, linear, conv := nn.NewEmbedding(in.At("table"), 10, 6), nn.NewLinear(in.At("linear"), 6, 8), nn.NewDense(in.At("conv"), 8, 6)
	turned := in.At("turned").Param("weight", array.Shape{4, 6}, nn.Normal(1))
	model := ModelFunc(in.Params(), func(x []*Tensor) []*Tensor {
		h := conv.Forward(op.Tanh(linear.Forward(table.Forward(x[0]))))
		return []*Tensor{op.MatMul(h, op.Transpose(op.Neg(turned.Value), 1, 0))}
	})
	for _, c := range []struct {
		use  Parallelism
		want map[string]string
	}{
		{ColWise{}, map[string]string{"table.weight": "@[_,tp]", "linear.weight": "@[tp,_]", "linear.bias": "@[tp]", "conv.weight": "@[_,tp]", "conv.bias": "@[tp]", "turned.weight": "@[tp,_]"}},
		{RowWise{Axis: "dp"}, map[string]string{"table.weight": "@[dp,_]", "linear.weight": "@[_,dp]", "conv.weight": "@[dp,_]", "turned.weight": "@[_,dp]"}},
	} {
		p, err := Parallelize(model, nil, ParallelPlan{Layers: []LayerPlan{On("*", c.use)}})
		if err != nil {
			t.Fatal(err)
		}
		f, err := TrainerConfig{Params: model.Params()}.traceForward("f", []Type{{DType: array.I32, Shape: array.Shape{2, 3}}}, func(x []*Tensor) []*Tensor { return model.Forward(x...) })
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.apply(f)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.specs) != len(c.want) {
			t.Errorf("%T: got %v", c.use, got.specs)
		}
		for name, want := range c.want {
			if s := got.specs[name].String(); s != want {
				t.Errorf("%T: %s: got %s, want %s", c.use, name, s, want)
			}
		}
	}
}
