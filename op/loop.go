package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/lane"
)

// LoopKind is what an op is in a loop over rows and columns that several ops share.
type LoopKind uint8

const (
	// LoopMap computes each element from the elements at its place, broadcast.
	LoopMap LoopKind = iota
	// LoopFold makes one number of the trailing dims, which are a row.
	LoopFold
	// LoopColumns adds up the leading dims: one number for each column.
	LoopColumns
	// LoopTotal adds up all elements, too many for a row.
	LoopTotal
	// LoopSame has its operand's elements in the same order.
	LoopSame
	// LoopRepeat is its first operand broadcast to the result's shape.
	LoopRepeat
	// LoopWalk has its operand's elements, or some of them, in another order.
	LoopWalk
	// LoopJoin puts its operands, all of one size, side by side.
	LoopJoin
	// LoopConstant is one number everywhere.
	LoopConstant
)

// Loop says what an op does in a loop.
type Loop struct {
	Kind LoopKind
	// Lane is what it does to a lane of a vector; nil where only its own kernel knows.
	Lane func(b *lane.Builder, in []lane.Arg) lane.Arg
	// Fold is how the elements of a row are combined.
	Fold lane.Fold
	// Count divides a sum, where it is not 0: the result is a mean.
	Count int
	// Row is the same fold of an operand of two dims along the second.
	Row Op
	// Rows and Cols are the sizes of the loop that a fold or a sum of columns needs.
	Rows, Cols int
	// Value is what a constant is.
	Value float64
	// Reads is where a walk's operand has the elements of the result.
	Reads elemWalk
	// Writes is, for each operand, where the result has its elements; nil where some have no operand.
	Writes []elemWalk
}

// looper is an op that says what it is in a loop; false where it can be part of none.
type looper interface {
	Loop(in, out []Type) (Loop, bool)
}

// laner is an op that computes each element by a formula for a lane.
type laner interface {
	Lane(b *lane.Builder, in []lane.Arg) lane.Arg
}

// LoopOf returns what an op on operands of these types is in a loop, if it can be part of one.
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

// laneSize returns the bytes of lanes that hold values of these types: 8 for floats of 64 bits, 4 for
// narrower ones, and 0 for truths alone, which lanes of either size hold. No lanes hold both sizes of floats,
// or anything else.
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

// formula returns what a map does to a lane of 512-bit vectors.
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

// foldLoop returns the loop of a reduction along dims: a fold where they are the last ones, a sum of columns
// or of all, if that is allowed, where they are the first or too many for a row.
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

// sameLoop returns the loop of an op that changes its operand's shape only.
func sameLoop() (Loop, bool) { return Loop{Kind: LoopSame}, true }

// comparing returns the loop of a comparison of floats; swapped is of the second operand with the first.
func comparing(in []Type, predicate uint8, swapped bool) (Loop, bool) {
	return Loop{Kind: LoopMap, Lane: func(b *lane.Builder, in []lane.Arg) lane.Arg {
		if swapped {
			return b.Compare(predicate, in[1], in[0])
		}
		return b.Compare(predicate, in[0], in[1])
	}}, floatInLane(in[0].DType)
}
