package op_test

import (
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// TestEveryLinearOpIs checks f(a·x + b·y) = a·f(x) + b·f(y) for each group of operands that an op claims to
// be linear in.
func TestEveryLinearOpIs(t *testing.T) {
	const a, b = 0.75, -1.5
	d := device(t, 1)
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		l, ok := o.(op.Multilinear)
		if !ok {
			return
		}
		for _, group := range l.Linear() {
			if len(group) == 0 {
				for i := range args {
					group = append(group, i)
				}
			}
			x, y := fillAll(args, array.F64, 1), fillAll(args, array.F64, 2)
			z := append([]array.Array(nil), x...)
			other := append([]array.Array(nil), x...)
			skip := false
			for _, i := range group {
				if x[i].DType() != array.F64 {
					skip = true // partial sums of integers are always reduced
					break
				}
				other[i], z[i] = y[i], mix(a, x[i], b, y[i])
			}
			if skip {
				continue
			}
			fx, fy, fz := evaluate(t, d, o, x), evaluate(t, d, o, other), evaluate(t, d, o, z)
			for r := range fz {
				want := mix(a, fx[r], b, fy[r])
				for i := range want.Len() {
					if e := want.At(i) - fz[r].At(i); e > 1e-6 || e < -1e-6 {
						t.Fatalf("not linear in operands %v: element %d of result %d is %g, want %g", group, i, r, fz[r].At(i),
							want.At(i))
					}
				}
			}
		}
	})
}

// mix is a·x + b·y.
func mix(a float64, x array.Array, b float64, y array.Array) array.Array {
	out := make([]float64, x.Len())
	for i := range out {
		out[i] = a*x.At(i) + b*y.At(i)
	}
	return array.FromSlice(out, x.Shape()...)
}
