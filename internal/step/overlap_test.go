package step

import (
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// TestOverlapWaits: every collective that is started is waited for, also where nothing reads what it gives,
// be its source a parameter or not.
func TestOverlapWaits(t *testing.T) {
	m, err := mesh.New([]mesh.Axis{{Name: "dp", Size: 2}})
	if err != nil {
		t.Fatal(err)
	}
	b := ir.NewBuilder("f")
	x := b.Param("x", ir.Type{DType: array.F32, Shape: array.Shape{4}})
	all := func(x *op.Tensor) *op.Tensor { return op.AllReduce(x, m, mesh.On("dp"), mesh.Sum) }
	all(x)
	all(op.Tanh(x))
	f, err := b.Build(op.Exp(all(op.Exp(x))), all(op.Sin(x)))
	if err != nil {
		t.Fatal(err)
	}
	g, err := overlap(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	waited := map[*ir.Value]bool{}
	for _, n := range g.Nodes() {
		if _, ok := n.Op().(op.Waiter); ok {
			waited[n.In()[0]] = true
		}
	}
	for _, n := range g.Nodes() {
		s, ok := n.Op().(op.Starter)
		if ok && ir.FormatOp(n.Op()) == ir.FormatOp(s.Started()) && !waited[n.Out()[0]] {
			t.Errorf("%s is never waited for:\n%s", n.Op().Name(), g)
		}
	}
	if len(waited) != 2 {
		t.Errorf("%d collectives are waited for, want the 2 that are used:\n%s", len(waited), g)
	}
}
