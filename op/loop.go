package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/lane"
)

// LoopKind is the role of an op in a fused loop over rows and columns.
type LoopKind uint8

const (
	// LoopMap computes each element from the operands' elements at the same position, broadcast.
	LoopMap LoopKind = iota
	// LoopFold reduces the trailing dims, which form a row, to one number.
	LoopFold
	// LoopColumns sums over the leading dims: one number for each column.
	LoopColumns
	// LoopTotal sums over all elements, which are too many for a row.
	LoopTotal
	// LoopSame returns its operand's elements in the same order.
	LoopSame
	// LoopRepeat broadcasts its first operand to the result's shape.
	LoopRepeat
	// LoopWalk returns all or some of its operand's elements in another order.
	LoopWalk
	// LoopJoin concatenates its operands, which all have one size.
	LoopJoin
	// LoopConstant returns a constant.
	LoopConstant
)

// Loop describes an op in a fused loop.
type Loop struct {
	Kind LoopKind
	// Lane is the formula for one lane of a vector; nil if only the op's kernel can compute it.
	Lane func(b *lane.Builder, in []lane.Arg) lane.Arg
	// Fold is the reduction of a row.
	Fold lane.Fold
	// Count, if not 0, divides a sum, so that the result is a mean.
	Count int
	// Row is the same reduction for an operand of two dims, along the second.
	Row Op
	// Rows and Cols are the sizes of the loop that a fold or a column sum requires.
	Rows, Cols int
	// Value is that of a constant.
	Value float64
	// Reads locates the elements of a walk's result in its operand.
	Reads elemWalk
	// Writes locates, for each operand, its elements in the result; nil if some elements have no operand.
	Writes []elemWalk
}

// looper is implemented by ops that describe themselves in a loop; false if they cannot be part of one.
type looper interface {
	Loop(in, out []Type) (Loop, bool)
}

// laner is implemented by ops that compute each element by a formula for a lane.
type laner interface {
	Lane(b *lane.Builder, in []lane.Arg) lane.Arg
}

// LoopOf describes an op on operands of these types in a loop, if it can be part of one.
func LoopOf(o Op, in, out []Type) (Loop, bool) {
	size, ok := laneSize(in, out)
	if len(out) != 1 || !ok {
		return Loop{}, false
	}
	var loop Loop
	switch l := o.(type) {
	case looper:
		loop, ok = l.Loop(in, out)
	case laner:
		loop = Loop{Kind: LoopMap, Lane: l.Lane}
	default:
		return Loop{}, false
	}
	if ok && size == 8 && loop.Lane != nil {
		ok = !loop.formula(true, len(in)).Missing
	}
	return loop, ok
}

// laneSize returns the bytes of lanes that hold values of these types: 8 for 64-bit floats, 4 for narrower
// ones, and 0 for booleans alone, which fit lanes of either size. It is not ok if both sizes of floats, or
// other types, occur.
func laneSize(lists ...[]Type) (size int, ok bool) {
	for _, types := range lists {
		for _, t := range types {
			switch {
			case t.DType == array.Bool:
				continue
			case !floatInLane(t.DType):
				return 0, false
			}
			of := 4
			if t.DType == array.F64 {
				of = 8
			}
			if size != 0 && size != of {
				return 0, false
			}
			size = of
		}
	}
	return size, true
}

func floatInLane(d array.DType) bool { return d == array.F32 || d == array.F64 || d.IsHalf() }

// formula returns the instructions of a map on a lane of 512-bit vectors.
func (l *Loop) formula(double bool, inputs int) *lane.Builder {
	b := lane.NewBuilder(true, inputs)
	if double {
		b = lane.NewDouble(true, inputs).Builder()
	}
	args := make([]lane.Arg, inputs)
	for i := range args {
		args[i] = b.In(i)
	}
	l.Lane(b, args)
	return b
}

// loopOfNode is like LoopOf for a node.
func loopOfNode(n *ir.Node) (Loop, bool) {
	o, ok := n.Op().(Op)
	if !ok {
		return Loop{}, false
	}
	return LoopOf(o, typesOfValues(n.In()), typesOfValues(n.Out()))
}

// foldLoop returns the loop of a reduction along dims: a fold if they are the last ones; a column sum or a
// total, if allowed, if they are the first ones or too long for a row.
func foldLoop(in []Type, dims []int, how lane.Fold, row Op) (Loop, bool) {
	gs := groups(in[0].Shape, dims)
	if len(gs) != 1 || !floatInLane(in[0].DType) {
		return Loop{}, false
	}
	sums := how == lane.FoldSum && !in[0].DType.IsHalf()
	switch g := gs[0]; {
	case g.outer == 1 && g.last && g.reduced > maxRow && sums:
		return Loop{Kind: LoopTotal}, true
	case g.last:
		return Loop{Kind: LoopFold, Fold: how, Row: row, Rows: g.outer, Cols: g.reduced}, true
	case g.outer == 1 && sums:
		return Loop{Kind: LoopColumns, Rows: g.reduced, Cols: g.inner}, true
	}
	return Loop{}, false
}

// sameLoop returns the loop of an op that only changes its operand's shape.
func sameLoop() (Loop, bool) { return Loop{Kind: LoopSame}, true }

// comparing returns the loop of a comparison of floats; swapped compares the second operand with the first.
func comparing(in []Type, predicate uint8, swapped bool) (Loop, bool) {
	return Loop{Kind: LoopMap, Lane: func(b *lane.Builder, in []lane.Arg) lane.Arg {
		if swapped {
			return b.Compare(predicate, in[1], in[0])
		}
		return b.Compare(predicate, in[0], in[1])
	}}, floatInLane(in[0].DType)
}
