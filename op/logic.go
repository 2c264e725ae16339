package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
)

// logic is embedded by functions of two booleans that are broadcast together.
type logic struct{ comparison }

func (o logic) Infer(in []Type) ([]Type, error) {
	if err := wantTruth(in); err != nil {
		return nil, err
	}
	return o.comparison.Infer(in)
}

func wantTruth(in []Type) error {
	for _, t := range in {
		if t.DType != array.Bool {
			return fmt.Errorf("want truth values: got %v", t)
		}
	}
	return nil
}

func (logic) InPlace() []int { return []int{0} }

func (logic) Samples() []Sample {
	return []Sample{
		{In: []Arg{bools(5, 7), bools(5, 7)}},
		{In: []Arg{bools(5, 1, 7), bools(6, 1)}},
		{In: []Arg{bools(5, 7), bools()}},
	}
}

// runLogic computes on booleans as bytes 0 and 1, with bitwise and, or and xor.
func runLogic(env *Env, in, out []array.Array, f func(dst, x, y []uint8)) {
	zip2(env, asBytes(out[0]), asBytes(in[0]), asBytes(in[1]), f)
}
