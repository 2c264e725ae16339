package spmd

import (
	"fmt"

	"github.com/galley-ml/galley/mesh"
)

// Kind is what a move does.
type Kind uint8

// The moves. The first three send nothing.
const (
	// Slice: each device keeps its part of what all along the axes hold.
	Slice Kind = iota
	// Mask: copies become terms of a reduction.
	Mask
	// Pad: parts become terms of a reduction.
	Pad
	AllGather
	AllToAll
	ReduceScatter
	AllReduce
	// Permute: devices hand whole parts on.
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
	// Axes is the axes along which devices act together.
	Axes mesh.Axes
	// Dim is the dim that is cut or joined; of an all-to-all the one that is cut, and From the one that is
	// joined.
	Dim, From int
	// Reduce is how terms combine.
	Reduce mesh.Reduce
	// Before and After are the layout of the tensor.
	Before, After mesh.Spec
	Cost          Cost
}

// String returns the move and where it leads: all_gather tp dim 0 → @[dp,_].
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
