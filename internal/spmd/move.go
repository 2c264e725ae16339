package spmd

import (
	"fmt"

	"github.com/galley-ml/galley/mesh"
)

// Kind is the kind of a move.
type Kind uint8

// Moves. The first three need no communication.
const (
	// Slice: each device keeps its part of a replicated value.
	Slice Kind = iota
	// Mask: copies become terms of a reduction.
	Mask
	// Pad: shards become terms of a reduction.
	Pad
	AllGather
	AllToAll
	ReduceScatter
	AllReduce
	// Permute: devices send whole shards on.
	Permute
	// Exchange: devices send single parts to each other as the two layouts overlap.
	Exchange
)

var kindNames = [...]string{"slice", "mask", "pad", "all_gather", "all_to_all", "reduce_scatter",
	"all_reduce", "permute", "exchange"}

// String returns the move's name.
func (k Kind) String() string { return kindNames[k] }

// Local reports whether the move needs no communication.
func (k Kind) Local() bool { return k <= Pad }

// Move is one step from a Spec to another.
type Move struct {
	Kind Kind
	// Axes holds the axes along which devices communicate.
	Axes mesh.Axes
	// Dim is the dim that is split or gathered; in an all-to-all Dim is split and From gathered.
	Dim, From int
	// Reduce is how terms are reduced.
	Reduce mesh.Reduce
	// Before and After are the layouts of the tensor.
	Before, After mesh.Spec
	Cost          Cost
}

// String returns the move and its result: all_gather tp dim 0 → @[dp,_].
func (m Move) String() string {
	text := m.Kind.String()
	switch m.Kind {
	case Permute, Exchange:
	case AllReduce, Mask:
		text += fmt.Sprintf(" %s", m.Axes)
	case AllToAll:
		text += fmt.Sprintf(" %s dim %d to %d", m.Axes, m.From, m.Dim)
	default:
		text += fmt.Sprintf(" %s dim %d", m.Axes, m.Dim)
	}
	return text + " → " + m.After.String()
}

// total returns the cost of all moves.
func total(moves []Move) Cost {
	var c Cost
	for _, m := range moves {
		c = c.Plus(m.Cost)
	}
	return c
}
