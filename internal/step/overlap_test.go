package step

import (
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
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

// TestSumsMeanwhile: where devices compute while they communicate and a step has one backward pass, gradients
// are combined within it, in turn or over several passes behind it, and numbers are the same to the bit.
func TestSumsMeanwhile(t *testing.T) {
	for _, x := range []sample{{1, 2, 1, "1f1b", 0}, {1, 3, 1, "1f1b", 1}, {1, 2, 1, "1f1b", 2},
		{1, 2, 2, "1f1b", 1}} {
		var turn []float64
		for _, o := range []Overlap{NoOverlap, FullOverlap} {
			c := x.config(t)
			c.Overlap = o
			p, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			behind := combines(p.Parts[len(p.Parts)-1])
			if want := x.zero < 2 && (o == NoOverlap || x.micros > 1); behind != want {
				t.Errorf("%+v, overlap %d: gradients are combined behind the backward pass: %v, want %v", x, o,
					behind, want)
			}
			losses := train(t, p, x.micros)
			if turn == nil {
				turn = losses
			}
			if !slices.Equal(losses, turn) {
				t.Errorf("%+v: losses are %v with overlap, %v without", x, losses, turn)
			}
		}
	}
}

// combines reports whether devices sum matrices in a part.
func combines(p *Part) bool {
	return slices.ContainsFunc(p.Communications, func(c spmd.Communication) bool {
		return strings.Contains(c.Kind, "reduce") && strings.Contains(c.Tensor, "[4,4]")
	})
}
