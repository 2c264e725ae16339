package layout

import (
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// TestSides holds columns and rows to the dims that they mean in each kind of layer: they are read off the
// ops, not off the layers.
func TestSides(t *testing.T) {
	in := nn.NewInit(nn.Config{})
	table, linear := nn.NewEmbedding(in.At("table"), 10, 6), nn.NewLinear(in.At("linear"), 6, 8)
	dense := nn.NewDense(in.At("dense"), 8, 6)
	turned := in.At("turned").Param("weight", array.Shape{4, 6}, nn.Normal(1))
	b := ir.NewBuilder("f")
	var values []*op.Tensor
	for _, p := range in.Params() {
		values = append(values, b.Param(p.Name, p.Type))
	}
	ids := b.Param("ids", ir.Type{DType: array.I32, Shape: array.Shape{2, 3}})
	restore := nn.Bind(in.Params(), values)
	h := dense.Forward(op.Tanh(linear.Forward(table.Forward(ids))))
	f, err := b.Build(op.MatMul(h, op.Transpose(op.Neg(turned.Value), 1, 0)))
	restore()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		side Side
		axis string
		want map[string]string
	}{
		{SequenceParallel, "", map[string]string{
			"table.weight": "@[_,tp]", "linear.weight": "@[tp,_]", "linear.bias": "@[tp]",
			"dense.weight": "@[_,tp]", "dense.bias": "@[tp]", "turned.weight": "@[tp,_]",
		}},
		{Rows, "dp", map[string]string{
			"table.weight": "@[dp,_]", "linear.weight": "@[_,dp]", "dense.weight": "@[dp,_]",
			"turned.weight": "@[_,dp]",
		}},
	} {
		builder := NewBuilder(in.Params())
		for _, layer := range []string{"table", "linear", "dense", "turned"} {
			if err := builder.Split(layer, c.side, c.axis); err != nil {
				t.Fatal(err)
			}
		}
		got, err := builder.Layers().apply(f)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.specs) != len(c.want) {
			t.Errorf("side %d: got %v", c.side, got.specs)
		}
		for name, want := range c.want {
			if s := got.specs[name].String(); s != want {
				t.Errorf("side %d: %s: got %s, want %s", c.side, name, s, want)
			}
		}
	}
}
