package mesh

import (
	"fmt"
	"strings"
)

// Reduce is the reduction that combines partial values.
type Reduce uint8

// Reductions.
const (
	Sum Reduce = iota
	Mean
	Max
	Min
	Prod
	Any
	All
)

var reduceNames = [...]string{"sum", "mean", "max", "min", "prod", "any", "all"}

// String returns the reduction's name.
func (r Reduce) String() string {
	if int(r) < len(reduceNames) {
		return reduceNames[r]
	}
	return fmt.Sprintf("Reduce(%d)", uint8(r))
}

// nesting is the order in which reductions along different axes are applied, the lowest first.
var nesting = [...]int{Prod: 0, Min: 1, All: 1, Max: 2, Any: 2, Sum: 3, Mean: 3}

// Before reports whether partial values by r are reduced before those by o. The maximum of sums is not the
// sum of maxima, so a Spec that has both needs an order: products are innermost, then minima, then maxima,
// and sums and means are outermost, because ops pass these on. Between reductions of one level the order is
// free.
func (r Reduce) Before(o Reduce) bool { return nesting[r] < nesting[o] }

// ParseReduce returns a reduction by its name.
func ParseReduce(name string) (Reduce, error) {
	for r, n := range reduceNames {
		if n == name {
			return Reduce(r), nil
		}
	}
	return Sum, fmt.Errorf("reduction: got %q, want %s", name, strings.Join(reduceNames[:], ", "))
}
