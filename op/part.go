package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// rowPart is the rows of a tensor that a device has of those that indices name: rows of them from offset on,
// of total. A total of zero is that it has all.
type rowPart struct{ rows, offset, total int }

// localRows returns the attributes of an op whose rows are along a dim of a tensor: what is added to an
// offset, and the total where there is none yet.
func (at *Place) localRows(t, dim, total int) (offset, all int) {
	r := at.Range(t, dim)
	if n := at.whole(t).Shape[dim]; total == 0 && r.Size != n {
		total = n
	}
	return r.Start, total
}

// fits reports whether the rows of a part are among all.
func (p rowPart) fits() bool {
	return p.offset >= 0 && p.total >= 0 &&
		(p.total == 0 && p.offset == 0 || p.rows <= p.total && p.offset <= p.total-p.rows)
}

// read returns the rows that the elements of a name, as they are numbered in the part; -1 is one that is
// elsewhere. It panics with an *IndexError on one that is nowhere.
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

// emitLocal writes an index as it is numbered in the part. What is elsewhere is then out of bounds.
func (p rowPart) emitLocal(w *hlo.Writer, index hlo.Ref) hlo.Ref {
	if p.offset == 0 {
		return index
	}
	return w.Op("subtract", "", index.Type, index, w.Constant(index.Type, float64(p.offset)))
}

// emitTaken writes what take makes of the local index, with zeros for rows that are elsewhere. dims are those
// of the result that belong to the index.
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

// sumStar keeps a factor whole unless parts of a tensor in which all but one are zeros can be added up.
func sumStar(d array.DType) string {
	if d.IsFloat() || d == array.I32 || d == array.I64 {
		return ""
	}
	return "*"
}
