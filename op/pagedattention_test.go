package op_test

import (
	"errors"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// TestPageOutOfRange: a page that is not there is an error, as any index is.
func TestPageOutOfRange(t *testing.T) {
	o, _ := op.Lookup("paged_attention")
	s := o.(op.Op).Samples()[0]
	in := make([]array.Array, len(s.In))
	for i, a := range s.In {
		in[i] = array.New(a.Type.DType, a.Type.Shape...)
	}
	const table = 3
	in[table].Set(0, 1e6)
	out, err := s.Op.Infer(typesOf(in))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		var e *op.IndexError
		if err, _ := recover().(error); !errors.As(err, &e) || e.Index != 1e6 {
			t.Errorf("got %v, want an IndexError of page 1000000", err)
		}
	}()
	op.Run(&op.Env{}, s.Op, in, []array.Array{array.New(out[0].DType, out[0].Shape...)})
	t.Error("it ran")
}
