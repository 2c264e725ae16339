package op_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/op"
)

// notLowered are the ops without StableHLO, with the reason.
var notLowered = map[string]string{
	"erf":                     "the dialect has no erf",
	"gelu":                    "its exact form is made of erf",
	"gelu_grad":               "its exact form is made of erf",
	"uniform":                 "Philox in 32-bit unsigned arithmetic is not written yet",
	"normal":                  "Philox in 32-bit unsigned arithmetic is not written yet",
	"bernoulli":               "Philox in 32-bit unsigned arithmetic is not written yet",
	"all_gather":              "of uneven parts: the dialect's collectives take equal ones",
	"all_to_all":              "of uneven parts",
	"all_to_all_experts":      "how many rows go where is known at run time only",
	"all_to_all_experts_grad": "how many rows go where is known at run time only",
	"collective_permute":      "of uneven parts",
	"reduce_scatter":          "of uneven parts",
	"ring_shift":              "of uneven parts",
	"shard_pad":               "of uneven parts",
	"shard_slice":             "of uneven parts",
	"transfer":                "messages between meshes are not part of one program there",
	"local_map":               "a program within a program is not written yet",
	"max_pool2d_pick":         "it is only the second derivative of a pooling",
}

// TestEmit: every op writes StableHLO whose results have the types that it infers, or is in the list above.
func TestEmit(t *testing.T) {
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		w := hlo.NewWriter()
		types, refs := make([]op.Type, len(args)), make([]hlo.Ref, len(args))
		for i, a := range args {
			types[i] = a.Type
			refs[i] = w.Param(hlo.Type{DType: a.Type.DType, Shape: a.Type.Shape})
		}
		out, err := o.Infer(types)
		if err != nil {
			t.Fatal(err)
		}
		got := o.Emit(w, refs, out)
		if w.Err() != nil {
			if notLowered[o.Name()] == "" {
				t.Error(w.Err())
			}
			return
		}
		for i, want := range out {
			if got[i].DType != want.DType || !got[i].Shape.Equal(want.Shape) {
				t.Errorf("result %d is %v, want %v", i, got[i].Type, want)
			}
		}
		if text := w.Module("op", got...); !strings.Contains(text, "func.return") {
			t.Error(text)
		}
	})
}
