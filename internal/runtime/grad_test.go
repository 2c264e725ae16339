package runtime_test

import (
	"errors"
	"math"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// TestMistakesInGradients: an adjoint that is a mistake stays one, also behind ops that ask for its type.
func TestMistakesInGradients(t *testing.T) {
	host := cpu.NewDevice(cpu.Config{Threads: 1})
	defer host.Close()
	w, err := inproc.New(2)
	if err != nil {
		t.Fatal(err)
	}
	s := runtime.NewSession(host, w)
	defer s.Close()
	x := s.Tensor(array.New(array.F64, 3)).Track()
	y := op.Where(op.Greater(x, op.Const(x, 0)), x, op.Tanh(x))
	mistake := errors.New("no gradient here")
	g := op.Grad([]*op.Tensor{y}, []*op.Tensor{ir.Invalid(s, mistake)}, []*op.Tensor{x})[0]
	if !errors.Is(g.Err(), mistake) {
		t.Errorf("got a gradient, %v, want the mistake", g.Err())
	}
}

// TestGradientsFromTwoMeshes: the results of one op, of unequal ranks and on no mesh themselves, are used on
// two meshes. Their gradients come back from both and meet, each in a layout of its own rank.
func TestGradientsFromTwoMeshes(t *testing.T) {
	host := cpu.NewDevice(cpu.Config{Threads: 1})
	defer host.Close()
	w, err := inproc.New(4)
	if err != nil {
		t.Fatal(err)
	}
	s := runtime.NewSession(host, w)
	defer s.Close()
	grad := func(at func(x *op.Tensor, text string) *op.Tensor) array.Array {
		a := array.New(array.F64, 2, 4)
		for i := range a.Len() {
			a.Set(i, 0.1*float64(i+1))
		}
		x := s.Tensor(a).Track()
		yes := op.Greater(op.Sum(x), op.Const(x, 0))
		out := op.Cond(yes, func(x []*op.Tensor) []*op.Tensor {
			return []*op.Tensor{op.Square(x[0]), op.Sum(x[0], 0)}
		}, func(x []*op.Tensor) []*op.Tensor {
			return []*op.Tensor{op.Tanh(x[0]), op.Sum(op.Tanh(x[0]), 0)}
		}, x)
		one := op.SumSquares(at(out[0], "x=2@[0,1]"))
		two := op.SumSquares(at(out[1], "y=2@[2,3]"))
		loss := op.Add(at(one, "x=2@[0,1]"), at(two, "x=2@[0,1]"))
		got, err := runtime.Read(op.Grad([]*op.Tensor{loss}, nil, []*op.Tensor{x})[0])
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := grad(func(x *op.Tensor, _ string) *op.Tensor { return x })
	got := grad(func(x *op.Tensor, text string) *op.Tensor {
		m, err := mesh.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		spec := mesh.Whole(len(x.Shape()))
		if n := len(x.Shape()); n > 0 {
			spec.Dims[n-1] = mesh.On(m.Axes()[0].Name)
		}
		return op.Constrain(x, m, mesh.Closed(spec))
	})
	for i := range want.Len() {
		if math.Abs(got.At(i)-want.At(i)) > 1e-12 {
			t.Errorf("element %d of the gradient: got %v, want %v", i, got.At(i), want.At(i))
		}
	}
}
