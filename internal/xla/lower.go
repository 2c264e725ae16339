package xla

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// pairDonated gives each donated parameter's memory to the first result of its type that no earlier parameter took, or
// where none is left to whatever the compiler finds for it.
func pairDonated(f *ir.Func, donate []int) []op.Donation {
	taken := make([]bool, len(f.Results()))
	pairs := make([]op.Donation, len(donate))
	for k, i := range donate {
		pairs[k] = op.Donation{Param: i, Result: -1}
		for r, v := range f.Results() {
			if !taken[r] && v.Type().Equal(f.Params()[i].Type()) {
				pairs[k].Result, taken[r] = r, true
				break
			}
		}
	}
	return pairs
}
