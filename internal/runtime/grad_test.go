package runtime_test

import (
	"errors"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
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
	if g := op.Grad([]*op.Tensor{y}, []*op.Tensor{ir.Invalid(s, mistake)}, []*op.Tensor{x})[0]; !errors.Is(g.Err(), mistake) {
		t.Errorf("got a gradient, %v, want the mistake", g.Err())
	}
}
