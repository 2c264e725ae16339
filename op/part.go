package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// rowPart is a device's shard of the rows that indices refer to: rows of them from offset on, of total. A
// total of zero means all of them.
type rowPart struct{ rows, offset, total int }

// localRows returns the attributes of an op whose rows are along a dim of a tensor: the increment of its
// offset, and the total if there is none yet.
func (at *Place) localRows(t, dim, total int) (offset, all int) {
	r := at.Range(t, dim)
	if n := at.whole(t).Shape[dim]; total == 0 && r.Size != n {
		total = n
	}
	return r.Start, total
}

// fits reports whether the rows of a shard are within the total.
func (p rowPart) fits() bool {
	return p.offset >= 0 && p.total >= 0 &&
		(p.total == 0 && p.offset == 0 || p.rows <= p.total && p.offset <= p.total-p.rows)
}

// read returns the row numbers in a, relative to the shard; -1 for rows of other shards. It panics with an
// *IndexError for a row that does not exist.
func (p rowPart) read(o Op, a array.Array) []int {
	if p.total == 0 {
		return readIndices(o, a, p.rows)
	}
	idx := readIndices(o, a, p.total)
	for i := range idx {
		if idx[i] -= p.offset; idx[i] < 0 || idx[i] >= p.rows {
			idx[i] = -1
		}
	}
	return idx
}

// emitLocal writes an index relative to the shard. Rows of other shards are then out of bounds.
func (p rowPart) emitLocal(w *hlo.Writer, index hlo.Ref) hlo.Ref {
	if p.offset == 0 {
		return index
	}
	return w.Op("subtract", "", index.Type, index, w.Constant(index.Type, float64(p.offset)))
}

// emitTaken writes the result of take for the local index, with zeros for rows of other shards. dims are the
// dims of the result that belong to the index.
func (p rowPart) emitTaken(w *hlo.Writer, index hlo.Ref, dims []int, out Type,
	take func(index hlo.Ref) hlo.Ref) hlo.Ref {
	t := hloType(out)
	switch {
	case p.total == 0:
		return take(index)
	case p.rows == 0:
		return w.Constant(t, 0)
	}
	index = p.emitLocal(w, index)
	low := emitCompare(w, "GE", index, w.Constant(index.Type, 0))
	high := emitCompare(w, "LT", index, w.Constant(index.Type, float64(p.rows)))
	here := w.Op("and", "", low.Type, low, high)
	return w.Op("select", "", t, w.Broadcast(here, t.Shape, dims), take(index), w.Constant(t, 0))
}

// sumStar returns a star, which forbids splitting a factor, unless the dtype supports sums of shards in which
// all but one are zeros.
func sumStar(d array.DType) string {
	if d.IsFloat() || d == array.I32 || d == array.I64 {
		return ""
	}
	return "*"
}
