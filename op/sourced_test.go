package op_test

import (
	"slices"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// TestEverySourcedOpIs checks that a result stays when an operand changes that it is not computed from.
func TestEverySourcedOpIs(t *testing.T) {
	d := device(t, 1)
	checked := 0
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		s, ok := o.(op.Sourced)
		if !ok {
			return
		}
		checked++
		x, y := fillAll(args, array.F64, 1), fillAll(args, array.F64, 2)
		before := evaluate(t, d, o, x)
		for i := range args {
			z := slices.Clone(x)
			z[i] = y[i]
			for r, after := range evaluate(t, d, o, z) {
				same := string(after.Bytes()) == string(before[r].Bytes())
				if !same && !slices.Contains(s.Sources(r), i) {
					t.Errorf("result %d changes with operand %d: want sources %v", r, i, s.Sources(r))
				}
			}
		}
	})
	if checked == 0 {
		t.Error("no op says what its results are computed from")
	}
}
