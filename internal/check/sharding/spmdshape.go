package sharding

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// shapeOps are the ops that move elements without changing them.
func shapeOps() map[string]spmdOp {
	return opTable{
		"reshape": buildReshape, "reshape2": buildReshape,
		"reshape_grad": func(b *spmdBuild) []*op.Tensor {
			return only(op.Reshape(b.float(1),
				b.primalShape()...))
		},
		"flatten": buildFlatten,
		"flatten_grad": func(b *spmdBuild) []*op.Tensor {
			return only(op.Reshape(b.float(1),
				b.primalShape()...))
		},
		"squeeze": buildSqueeze,
		"squeeze_grad": func(b *spmdBuild) []*op.Tensor {
			return only(op.Reshape(b.float(1),
				b.primalShape()...))
		},
		"unsqueeze": buildUnsqueeze,
		"unsqueeze_grad": func(b *spmdBuild) []*op.Tensor {
			return only(op.Reshape(b.float(1),
				b.primalShape()...))
		},
		"transpose": buildTranspose, "transpose2": buildTranspose,
		"transpose_grad": buildTransposeGrad,
		"expand":         buildExpand,
		"expand_grad":    buildExpandGrad,
		"expand_as":      buildExpandAs,
		"expand_as_grad": buildExpandGrad,
		"tile":           buildTile,
		"tile_grad":      buildTileGrad,
		"concat": func(b *spmdBuild) []*op.Tensor {
			return only(op.Concat(b.floats(0, len(b.Inputs)), b.Attrs.int("axis", 0)))
		},
		"concat_grad": buildConcatGrad,
		"stack": func(b *spmdBuild) []*op.Tensor {
			return only(op.Stack(b.floats(0, len(b.Inputs)), b.Attrs.int("axis", 0)))
		},
		"stack_grad": buildUnbind,
		"split": func(b *spmdBuild) []*op.Tensor {
			return op.Split(b.float(0), b.Attrs.int("axis", 0),
				b.sections()...)
		},
		"split_with_num": func(b *spmdBuild) []*op.Tensor {
			return op.Chunk(b.float(0), b.Attrs.int("axis", 0), max(1, b.Attrs.int("num", 1)))
		},
		"unbind":        buildUnbind,
		"slice":         buildSlice,
		"strided_slice": buildSlice,
		"pad":           buildPad,
		"roll": func(b *spmdBuild) []*op.Tensor {
			return only(op.Roll(b.float(0), b.Attrs.ints("shifts"), b.Attrs.ints("axis")))
		},
		"roll_grad": buildRollGrad,
		"tril_triu": buildTriangle,
		"triu":      buildTriangle,
		"tril": func(b *spmdBuild) []*op.Tensor {
			return only(op.Tril(b.float(0),
				b.Attrs.int("diagonal", 0)))
		},
		"triu_grad": func(b *spmdBuild) []*op.Tensor {
			return only(op.Triu(b.float(len(b.Inputs)-1), b.Attrs.int("diagonal", 0)))
		},
	}.ops()
}

// primalShape returns the shape of operand 0, to which some recorded ops add a leading zero.
func (b *spmdBuild) primalShape() []int {
	shape := b.Inputs[0].Shape
	if len(shape) > 0 && shape[0] == 0 {
		return shape[1:]
	}
	return shape
}

// unknownSize is used for a size that is unknown when the recorded rule runs: it is divisible by the sizes of
// meshes.
const unknownSize = 768

// buildReshape uses the shape of the attribute or, in backward inference, of the result. A zero means the
// operand's size.
func buildReshape(b *spmdBuild) []*op.Tensor {
	b.nameUnknown()
	shape := b.Attrs.ints("shape")
	if len(b.Outputs) > 0 {
		shape = slices.Clone(b.Outputs[0].Shape)
	}
	for i, n := range shape {
		if n == 0 && i < len(b.Inputs[0].Shape) {
			shape[i] = b.Inputs[0].Shape[i]
		}
	}
	return only(op.Reshape(b.float(0), shape...))
}

func (b *spmdBuild) nameUnknown() {
	for _, t := range b.Inputs {
		for d, n := range t.Shape {
			if n < 0 {
				t.Shape[d] = unknownSize
			}
		}
	}
}

func buildFlatten(b *spmdBuild) []*op.Tensor {
	return only(op.Flatten(b.float(0), b.Attrs.int("start_axis", 1), b.Attrs.int("stop_axis", -1)))
}

func buildSqueeze(b *spmdBuild) []*op.Tensor {
	return only(op.Squeeze(b.float(0), b.Attrs.ints("axis")...))
}

func buildUnsqueeze(b *spmdBuild) []*op.Tensor {
	x := b.float(0)
	for _, d := range b.Attrs.ints("axis") {
		x = op.Unsqueeze(x, d)
	}
	return only(x)
}

func buildTranspose(b *spmdBuild) []*op.Tensor {
	return only(op.Transpose(b.float(0), b.permutation()...))
}

// permutation counts dims from zero.
func (b *spmdBuild) permutation() []int {
	perm := b.Attrs.ints("perm")
	for i, d := range perm {
		if d < 0 {
			perm[i] = d + len(perm)
		}
	}
	return perm
}

func buildTransposeGrad(b *spmdBuild) []*op.Tensor {
	perm := b.permutation()
	inverse := make([]int, len(perm))
	for i, d := range perm {
		inverse[d] = i
	}
	return only(op.Transpose(b.float(len(b.Inputs)-1), inverse...))
}

// expandShape returns the attribute with the operand's own sizes where it has none.
func (b *spmdBuild) expandShape(attribute string) []int {
	shape, own := b.Attrs.ints(attribute), b.Inputs[0].Shape
	for i, n := range shape {
		d := i - (len(shape) - len(own))
		switch {
		case n < 0 && d >= 0:
			shape[i] = own[d]
		case n <= 0:
			shape[i] = 1
		}
	}
	return shape
}

func buildExpand(b *spmdBuild) []*op.Tensor {
	return only(op.Expand(b.float(0), b.expandShape("shape")...))
}

// buildExpandAs uses the shape and layout of y, if there is one.
func buildExpandAs(b *spmdBuild) []*op.Tensor {
	x := op.Expand(b.float(0), b.expandShape("target_shape")...)
	if b.given(1) && b.Direction == "forward" {
		return only(op.ExpandAs(b.float(0), b.float(1)))
	}
	return only(x)
}

// buildExpandGrad sums over what was repeated; x is there for its shape.
func buildExpandGrad(b *spmdBuild) []*op.Tensor {
	return only(op.SumTo(b.float(1), b.shape(0)))
}

func buildTile(b *spmdBuild) []*op.Tensor {
	x, reps := b.float(0), b.Attrs.ints("repeat_times")
	return only(op.Tile(x, reps...))
}

func buildTileGrad(b *spmdBuild) []*op.Tensor {
	y := op.Tile(b.zeros(array.F32, b.shape(0)...), b.Attrs.ints("repeat_times")...)
	dy := b.float(1)
	if y.Err() == nil && !y.Shape().Equal(dy.Shape()) {
		return only(mismatched(y, dy))
	}
	for y.Node() != nil && len(y.Node().In()) == 1 && y.Node().In()[0].Node() != nil &&
		len(y.Node().In()[0].Node().In()) > 0 {
		dy, y = pullback(y, nil, dy)[0], y.Node().In()[0]
	}
	return pullback(y, nil, dy)[:1]
}

func buildConcatGrad(b *spmdBuild) []*op.Tensor {
	n := len(b.Inputs) - 1
	dim, sizes := b.Attrs.int("axis", 0), []int{}
	for _, t := range b.Inputs[:n] {
		sizes = append(sizes, t.Shape[(dim+len(t.Shape))%len(t.Shape)])
	}
	return op.Split(b.float(n), dim, sizes...)
}

// sections returns the sizes of a split; one of them may be the remainder.
func (b *spmdBuild) sections() []int {
	sizes, shape := b.Attrs.ints("sections"), b.Inputs[0].Shape
	dim := b.Attrs.int("axis", 0)
	left := shape[(dim+len(shape))%len(shape)]
	sum := 0
	for _, n := range sizes {
		sum += max(n, 0)
	}
	if i := slices.Index(sizes, -1); i >= 0 {
		sizes[i] = left - sum
	} else if sum != left && len(b.Outputs) > 0 { // recorded for another dim: only which dim matters
		shape[(dim+len(shape))%len(shape)] = sum
	}
	return sizes
}

func buildUnbind(b *spmdBuild) []*op.Tensor { return op.Unbind(b.float(0), b.Attrs.int("axis", 0)) }

func buildSlice(b *spmdBuild) []*op.Tensor {
	x := b.float(0)
	rank := len(x.Shape())
	start, end, step := make([]int, rank), x.Shape().Clone(), make([]int, rank)
	for d := range step {
		step[d] = 1
	}
	starts, ends, strides := b.Attrs.ints("starts"), b.Attrs.ints("ends"), b.Attrs.ints("strides")
	for i, d := range b.Attrs.ints("axes") {
		d = (d + rank) % rank
		n := x.Dim(d)
		start[d], end[d] = inside(starts[i], n), inside(ends[i], n)
		if i < len(strides) {
			step[d] = strides[i]
		}
	}
	return only(op.Slice(x, start, end, step))
}

// inside clamps an index among n that may be counted from the end or be out of range.
func inside(at, n int) int {
	if at < 0 {
		at += n
	}
	return min(max(at, 0), n)
}

func buildPad(b *spmdBuild) []*op.Tensor {
	var low, high []int
	for i, n := range b.Attrs.ints("paddings") {
		if i%2 == 0 {
			low = append(low, n)
		} else {
			high = append(high, n)
		}
	}
	return only(op.Pad(b.float(0), low, high, b.Attrs.float("pad_value", 0)))
}

func buildRollGrad(b *spmdBuild) []*op.Tensor {
	shifts := b.Attrs.ints("shifts")
	for i := range shifts {
		shifts[i] = -shifts[i]
	}
	return only(op.Roll(b.float(1), shifts, b.Attrs.ints("axis")))
}

func buildTriangle(b *spmdBuild) []*op.Tensor {
	if b.Attrs.bool("lower") {
		return only(op.Tril(b.float(0), b.Attrs.int("diagonal", 0)))
	}
	return only(op.Triu(b.float(0), b.Attrs.int("diagonal", 0)))
}
