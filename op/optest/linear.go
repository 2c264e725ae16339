package optest

import (
	"slices"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Linear checks f(a·x + b·y) = a·f(x) + b·f(y) for each group of operands that an op claims to be linear in.
func Linear(t *testing.T, o op.Op, args []op.Arg) {
	const a, b = 0.75, -1.5
	l, ok := o.(op.Multilinear)
	if !ok {
		return
	}
	d := Device(t, 1)
	for _, group := range l.Linear() {
		if len(group) == 0 {
			for i := range args {
				group = append(group, i)
			}
		}
		x, y := Fill(args, array.F64, 1), Fill(args, array.F64, 2)
		if slices.ContainsFunc(group, func(i int) bool { return x[i].DType() != array.F64 }) {
			continue // partial sums of integers are always reduced
		}
		z, other := slices.Clone(x), slices.Clone(x)
		for _, i := range group {
			other[i], z[i] = y[i], mix(a, x[i], b, y[i])
		}
		fx, fy, fz := Evaluate(t, d, o, x), Evaluate(t, d, o, other), Evaluate(t, d, o, z)
		for r := range fz {
			want := mix(a, fx[r], b, fy[r])
			for i := range want.Len() {
				if e := want.At(i) - fz[r].At(i); e > 1e-6 || e < -1e-6 {
					t.Fatalf("not linear in operands %v: element %d of result %d is %g, want %g", group, i, r,
						fz[r].At(i), want.At(i))
				}
			}
		}
	}
}

// mix returns a·x + b·y.
func mix(a float64, x array.Array, b float64, y array.Array) array.Array {
	out := make([]float64, x.Len())
	for i := range out {
		out[i] = a*x.At(i) + b*y.At(i)
	}
	return array.FromSlice(out, x.Shape()...)
}

// Sources checks that a result stays when an operand changes that it is not computed from, and reports
// whether the op says anything of that.
func Sources(t *testing.T, o op.Op, args []op.Arg) bool {
	s, ok := o.(op.Sourced)
	if !ok {
		return false
	}
	d := Device(t, 1)
	x, y := Fill(args, array.F64, 1), Fill(args, array.F64, 2)
	before := Evaluate(t, d, o, x)
	for i := range args {
		z := slices.Clone(x)
		z[i] = y[i]
		for r, after := range Evaluate(t, d, o, z) {
			if string(after.Bytes()) != string(before[r].Bytes()) && !slices.Contains(s.Sources(r), i) {
				t.Errorf("result %d changes with operand %d: want sources %v", r, i, s.Sources(r))
			}
		}
	}
	return true
}
