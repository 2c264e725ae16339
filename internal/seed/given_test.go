package seed

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

func parse(t *testing.T, meshText, sharding string) (*mesh.Mesh, mesh.Sharding) {
	t.Helper()
	m, err := mesh.Parse(meshText)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mesh.ParseSharding(sharding)
	if err != nil {
		t.Fatal(err)
	}
	return m, s
}

// chain returns two parameters of one kind through a product, with a constraint between.
func chain(t *testing.T, constrain func(x *op.Tensor) *op.Tensor) *ir.Func {
	t.Helper()
	b := ir.NewBuilder("main")
	x, y := b.Param("w0", typeOf(3, 6)), b.Param("w1", typeOf(3, 6))
	h := constrain(op.MatMulT(x, y, false, true))
	f, err := b.Build(op.Sum(op.Tanh(op.MatMul(h, y)), 0), op.Square(h))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func typeOf(shape ...int) ir.Type { return ir.Type{DType: array.F32, Shape: shape} }

// TestGiven: annotations of parameters stay, whether their axes divide, are parts of axes, or have terms
// pending; and one of two parameters that are else alike may have one.
func TestGiven(t *testing.T) {
	for _, c := range []struct{ mesh, given string }{
		{"x=4", "@[x,_]"}, {"x=4", "@[_,x:(1)2]"}, {"x=4,y=2", "@[x:(2)2.y,_]"},
		{"x=2,y=2", "@[_,_]+{x,y:max}"}, {"x=6", "@[x:(1)3,x:(3)2]"},
		{"x=4", "@[x:(2)2?,?]"}, {"x=2,y=2", "@[?,?]-{x}"},
	} {
		m, s := parse(t, c.mesh, c.given)
		f := chain(t, op.Tanh)
		r, err := Find(f, Config{Mesh: m, Given: map[int]mesh.Sharding{1: s}})
		if err != nil {
			t.Errorf("%s %s: %v", c.mesh, c.given, err)
			continue
		}
		got := r.Specs[1]
		for d, axes := range s.Spec.Dims {
			if !m.HasPrefix(got.Dims[d], axes) || !s.Freedom[d].Open && !got.Dims[d].Equal(axes) {
				t.Errorf("%s %s: has layout %v", c.mesh, c.given, got)
			}
		}
		copied := len(s.Replicated) > 0 && m.Overlap(s.Replicated[0], got.Used())
		if !got.With(s.Spec.Partial...).Equal(got) || copied {
			t.Errorf("%s %s: has layout %v", c.mesh, c.given, got)
		}
	}
}

// TestConstraint: what is asked of values inside a program stays, too; what asks for another mesh is an error
// with its line.
func TestConstraint(t *testing.T) {
	m, s := parse(t, "x=4", "@[x:(1)2,_]")
	ask := func(at *mesh.Mesh) func(x *op.Tensor) *op.Tensor {
		return func(x *op.Tensor) *op.Tensor { return op.Constrain(x, at, s) }
	}
	f := chain(t, ask(m))
	r, err := Find(f, Config{Mesh: m})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range f.Nodes() {
		if n.Op().Name() == "constrain" && !r.Specs[n.Out()[0].ID()].Equal(s.Spec) {
			t.Errorf("has layout %v, want %v", r.Specs[n.Out()[0].ID()], s.Spec)
		}
	}
	other, _ := parse(t, "x=4@[4,5,6,7]", "@[]")
	_, err = Find(chain(t, ask(other)), Config{Mesh: m})
	if err == nil || !strings.Contains(err.Error(), "given_test.go") {
		t.Errorf("a constraint on another mesh: %v", err)
	}
}

// TestSymmetry: what stands for a way costs what the way does; on four dims and three axes that is a few
// dozen pairs for thousands.
func TestSymmetry(t *testing.T) {
	m, open := parse(t, "x=2,y=2,z=2", "@[?,?,?,?]")
	l := &labeler{mesh: m, axes: mesh.On("x", "y", "z")}
	router := spmd.NewRouter(m, spmd.Prices{})
	alike, rng := newSymmetry(m, spmd.Prices{}), rand.New(rand.NewPCG(1, 1))
	pairs := map[string]bool{}
	for _, shape := range [][]int{{8, 16, 8, 24}, {8, 6, 16, 2}} {
		typ := typeOf(shape...)
		specs := l.param(typ, open)
		price := func(from, to mesh.Spec) float64 {
			_, cost, err := router.Reshard(typ, from, to)
			if err != nil {
				t.Fatal(err)
			}
			return cost.Time
		}
		for range 60 {
			from, to := specs[rng.IntN(len(specs))], specs[rng.IntN(len(specs))]
			a, b := alike.canonical(shape, from, to)
			if want, got := price(from, to), price(a, b); math.Abs(got-want) > 1e-12 {
				t.Errorf("%v: %v to %v costs %v, %v to %v %v", shape, from, to, want, a, b, got)
			}
		}
		for _, from := range specs {
			for _, to := range specs {
				if a, b := alike.canonical(shape, from, to); shape[1] == 16 {
					pairs[a.String()+b.String()] = true
				}
			}
		}
	}
	if len(pairs) > 1500 {
		t.Errorf("%d pairs are left of 125²", len(pairs))
	}
	t.Log(len(pairs))
}
