package mesh

import (
	"fmt"
	"strings"
)

// Reduce is how partial values combine into the value that they are parts of.
type Reduce uint8

// The reductions.
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

// String is the reduction's name.
func (r Reduce) String() string {
	if int(r) < len(reduceNames) {
		return reduceNames[r]
	}
	return fmt.Sprintf("Reduce(%d)", uint8(r))
}

// ParseReduce finds a reduction by its name.
func ParseReduce(name string) (Reduce, error) {
	for r, n := range reduceNames {
		if n == name {
			return Reduce(r), nil
		}
	}
	return Sum, fmt.Errorf("reduction: got %q, want %s", name, strings.Join(reduceNames[:], ", "))
}
