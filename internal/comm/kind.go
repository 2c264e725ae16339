package comm

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
)

// Kind is the kind of a collective.
type Kind uint8

// The collectives; see the methods of Group of the same names.
const (
	AllReduce Kind = iota
	AllGather
	ReduceScatter
	AllToAll
	AllToAllV
	Broadcast
	Permute
	Send
	Recv
	Barrier
	Gather
	Scatter
)

var kinds = [...]string{
	AllReduce: "all_reduce", AllGather: "all_gather", ReduceScatter: "reduce_scatter", AllToAll: "all_to_all",
	AllToAllV: "all_to_all_v", Broadcast: "broadcast", Permute: "permute", Send: "send", Recv: "recv",
	Barrier: "barrier", Gather: "gather", Scatter: "scatter",
}

// Kinds lists every collective.
func Kinds() []Kind {
	all := make([]Kind, len(kinds))
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// String returns the name that errors and statistics print: all_reduce, all_gather …
func (k Kind) String() string { return kinds[k] }

// pairwise reports whether k is one end of a message between two members rather than a call of the whole
// group.
func (k Kind) pairwise() bool { return k == Send || k == Recv }

// reduces reports whether k combines the members' elements.
func (k Kind) reduces() bool { return k == AllReduce || k == ReduceScatter }

// Reduce is a reduction: how elements of several members are combined.
type Reduce uint8

// The reductions. Mean is the sum divided by the number of members. Any and All are for Bool, where they are
// Max and Min by another name; the others are for numbers, Mean for floats only.
const (
	Sum Reduce = iota
	Mean
	Max
	Min
	Prod
	Any
	All
)

var reduces = [...]string{Sum: "sum", Mean: "mean", Max: "max", Min: "min", Prod: "prod", Any: "any",
	All: "all"}

// Reduces lists every reduction.
func Reduces() []Reduce { return []Reduce{Sum, Mean, Max, Min, Prod, Any, All} }

// String returns the name that sharding rules and programs use: sum, mean, max …
func (r Reduce) String() string { return reduces[r] }

// ParseReduce reads the name that String prints.
func ParseReduce(s string) (Reduce, error) {
	if i := slices.Index(reduces[:], s); i >= 0 {
		return Reduce(i), nil
	}
	return 0, fmt.Errorf("reduction: unknown name %q: want one of %v", s, Reduces())
}

// Takes reports whether r can combine elements of type d.
func (r Reduce) Takes(d array.DType) bool {
	switch r {
	case Any, All:
		return d == array.Bool
	case Max, Min:
		return d != array.Invalid
	case Mean:
		return d.IsFloat()
	}
	return d.IsFloat() || d.IsInt()
}
