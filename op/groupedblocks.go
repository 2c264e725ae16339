package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// On a device that compiles for fixed shapes, groups of rows are computed in a loop over blocks with the same
// number of rows. Each block begins in one group; its results for rows of the next group are overwritten by
// the block of that group, which runs later.

// groupBlocks lists the blocks that cover all groups: for each, the index of its matrix and the range of rows
// that it provides. There are at most count of them; unused ones begin after the last row.
type groupBlocks struct {
	rows, count        int // rows in a block, blocks
	expert, start, end hlo.Ref
	// first and last delimit the rows of the shard that belong to its groups.
	first, last hlo.Ref
}

// rowsInBlock returns the number of rows of a block: enough to fill a matrix unit, but few enough that the
// partial blocks, one for each group, do not matter.
func rowsInBlock(rows, experts int) int {
	const least, most = 128, 2048
	n := least
	for n < most && 16*n*experts <= rows {
		n *= 2
	}
	return min(n, rows)
}

// newGroupBlocks computes the blocks from the sizes of groups, in i32, which the number of rows fits.
func newGroupBlocks(w *hlo.Writer, sizes hlo.Ref, p groupPart) groupBlocks {
	b := groupBlocks{rows: rowsInBlock(p.rows, p.experts)}
	b.count = p.rows/b.rows + p.experts
	sizes = w.Convert(sizes, array.I32)
	ends := emitRunningSum(w, sizes)
	starts := w.Op("subtract", "", ends.Type, ends, sizes)
	here := span{p.expert, p.expert + p.experts}
	starts, ends = b.local(w, emitNarrow(w, starts, 0, here), p), b.local(w, emitNarrow(w, ends, 0, here), p)
	b.assign(w, starts, ends, p.rows)
	b.first = w.Op("reshape", "", hlo.Type{DType: array.I32}, emitNarrow(w, starts, 0, span{0, 1}))
	b.last = w.Op("reshape", "", hlo.Type{DType: array.I32},
		emitNarrow(w, ends, 0, span{p.experts - 1, p.experts}))
	return b
}

// assign gives each block its group, among those between starts and ends, and its rows.
func (b *groupBlocks) assign(w *hlo.Writer, starts, ends hlo.Ref, rows int) {
	bin := func(name string, x, y hlo.Ref) hlo.Ref { return w.Op(name, "", x.Type, x, y) }
	size := w.Constant(ends.Type, float64(b.rows))
	needed := bin("divide", bin("add", bin("subtract", ends, starts), w.Constant(ends.Type, float64(b.rows-1))),
		size)
	until := emitRunningSum(w, needed)
	before := bin("subtract", until, needed)

	grid := hlo.Type{DType: array.I32, Shape: array.Shape{b.count, ends.Shape[0]}}
	line := hlo.Type{DType: array.I32, Shape: array.Shape{b.count}}
	across := func(x hlo.Ref) hlo.Ref { return w.Broadcast(x, grid.Shape, []int{1}) }
	block := emitIota(w, grid, 0)
	live := w.Op("and", "", hlo.Type{DType: array.Bool, Shape: grid.Shape},
		w.Compare("GE", block, across(before)), w.Compare("LT", block, across(until)))
	pick := func(x hlo.Ref) hlo.Ref { // at most one group of a block is live
		return w.Reduce("add", w.Op("select", "", grid, live, x, w.Constant(grid, 0)), 0, []int{1}, line)
	}
	at := bin("add", across(starts), bin("multiply", bin("subtract", block, across(before)), across(size)))
	after := w.Constant(grid, float64(rows)) // where unused blocks begin
	b.expert, b.end = pick(emitIota(w, grid, 1)), pick(across(ends))
	b.start = bin("add", w.Constant(line, float64(rows)), pick(bin("subtract", at, after)))
}

// local returns row numbers relative to the shard.
func (groupBlocks) local(w *hlo.Writer, x hlo.Ref, p groupPart) hlo.Ref {
	if p.row != 0 {
		x = w.Op("subtract", "", x.Type, x, w.Constant(x.Type, float64(p.row)))
	}
	scalar := hlo.Type{DType: array.I32}
	return w.Op("clamp", "", x.Type, w.Constant(scalar, 0), x, w.Constant(scalar, float64(p.rows)))
}

// emitRunningSum returns the cumulative sums of a short list.
func emitRunningSum(w *hlo.Writer, x hlo.Ref) hlo.Ref {
	n := x.Shape[0]
	t := hlo.Type{DType: x.DType, Shape: array.Shape{n, n}}
	upTo := w.Compare("LE", emitIota(w, t, 1), emitIota(w, t, 0))
	return w.Reduce("add", w.Op("select", "", t, upTo, w.Broadcast(x, t.Shape, []int{1}), w.Constant(t, 0)), 0,
		[]int{1}, x.Type)
}

// padded returns x with a block's worth of zero rows at its end, so that no block exceeds it.
func (b groupBlocks) padded(w *hlo.Writer, x hlo.Ref) hlo.Ref {
	p := newPad(2)
	p.High[0] = b.rows
	t := withDim(Type{DType: x.DType, Shape: x.Shape}, 0, x.Shape[0]+b.rows)
	return p.Emit(w, []hlo.Ref{x}, []Type{t})[0]
}

// entry returns element i of a list, as a scalar.
func entry(w *hlo.Writer, list, i hlo.Ref) hlo.Ref {
	one := w.Op("dynamic_slice", "slice_sizes = "+hlo.Ints([]int{1}),
		hlo.Type{DType: list.DType, Shape: array.Shape{1}}, list, i)
	return w.Op("reshape", "", hlo.Type{DType: list.DType}, one)
}

// blockAt slices n rows, or matrices, of x, starting at row at.
func blockAt(w *hlo.Writer, x, at hlo.Ref, n int) hlo.Ref {
	starts := []hlo.Ref{x, at}
	for range x.Shape[1:] {
		starts = append(starts, w.Constant(at.Type, 0))
	}
	t := withDim(Type{DType: x.DType, Shape: x.Shape}, 0, n)
	return w.Op("dynamic_slice", "slice_sizes = "+hlo.Ints(t.Shape), hloType(t), starts...)
}

// putAt returns x with y written at row at.
func putAt(w *hlo.Writer, x, y, at hlo.Ref) hlo.Ref {
	operands := []hlo.Ref{x, y, at}
	for range x.Shape[1:] {
		operands = append(operands, w.Constant(at.Type, 0))
	}
	return w.Op("dynamic_update_slice", "", x.Type, operands...)
}

// between returns true for rows of a shape, numbered from at on, that are in [low, high).
func between(w *hlo.Writer, shape array.Shape, at, low, high hlo.Ref) hlo.Ref {
	t := hlo.Type{DType: array.I32, Shape: array.Shape{shape[0]}}
	row := w.Op("add", "", t, emitIota(w, t, 0), w.Broadcast(at, t.Shape, nil))
	in := w.Op("and", "", hlo.Type{DType: array.Bool, Shape: t.Shape},
		w.Compare("GE", row, w.Broadcast(low, t.Shape, nil)), w.Compare("LT", row, w.Broadcast(high, t.Shape, nil)))
	return w.Broadcast(in, shape, []int{0})
}

func (o groupedMatMul) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	x, weights, t := in[0], in[1], hloType(out[0])
	if x.Shape.Len() == 0 || weights.Shape.Len() == 0 {
		return []hlo.Ref{w.Constant(t, 0)}
	}
	b := newGroupBlocks(w, in[2], o.part(x.Shape[0], weights.Shape[0]))
	zero := w.Constant(hlo.Type{DType: array.I32}, 0)
	matrix := hlo.Type{DType: weights.DType, Shape: weights.Shape[1:]}
	sum := 0
	if o.TransW {
		sum = 1
	}
	y := w.Constant(hlo.Type{DType: t.DType, Shape: array.Shape{x.Shape[0] + b.rows, t.Shape[1]}}, 0)
	r := w.While(b.count, []hlo.Ref{zero, y, b.padded(w, x), weights, b.expert, b.start},
		func(in []hlo.Ref) []hlo.Ref {
			i, y, x, weights, expert, start := in[0], in[1], in[2], in[3], in[4], in[5]
			at := entry(w, start, i)
			one := w.Op("reshape", "", matrix, blockAt(w, weights, entry(w, expert, i), 1))
			block := w.Dot(blockAt(w, x, at, b.rows), one, nil, nil, []int{1}, []int{sum},
				hlo.Type{DType: t.DType, Shape: array.Shape{b.rows, t.Shape[1]}})
			return []hlo.Ref{putAt(w, y, block, at), x, weights, expert, start}
		})
	whole := emitNarrow(w, r[1], 0, span{0, t.Shape[0]})
	inside := between(w, t.Shape, zero, b.first, b.last)
	return []hlo.Ref{w.Op("select", "", t, inside, whole, w.Constant(t, 0))}
}

func (o groupedMatMulGradW) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	x, y, t := in[0], in[1], hloType(out[0])
	if x.Shape.Len() == 0 || t.Shape.Len() == 0 {
		return []hlo.Ref{w.Constant(t, 0)}
	}
	b := newGroupBlocks(w, in[2], o.part(x.Shape[0], t.Shape[0]))
	scalar := hlo.Type{DType: array.I32}
	sum := hlo.Type{DType: t.DType.Compute(), Shape: t.Shape}
	one := hlo.Type{DType: sum.DType, Shape: t.Shape[1:]}
	state := []hlo.Ref{w.Constant(scalar, 0), w.Constant(sum, 0), b.padded(w, x), b.padded(w, y), b.expert,
		b.start, b.end}
	r := w.While(b.count, state, func(in []hlo.Ref) []hlo.Ref {
		i, sums, x, y := in[0], in[1], in[2], in[3]
		expert, start, end := entry(w, in[4], i), entry(w, in[5], i), entry(w, in[6], i)
		rows := blockAt(w, x, start, b.rows)
		own := between(w, rows.Shape, start, w.Constant(scalar, 0), end)
		rows = w.Op("select", "", rows.Type, own, rows, w.Constant(rows.Type, 0))
		term := w.Dot(rows, blockAt(w, y, start, b.rows), nil, nil, []int{0}, []int{0}, one)
		old := blockAt(w, sums, expert, 1)
		total := w.Op("add", "", old.Type, old, w.Op("reshape", "", old.Type, term))
		return append([]hlo.Ref{putAt(w, sums, total, expert), x, y}, in[4:]...)
	})
	return []hlo.Ref{w.Convert(r[1], t.DType)}
}
