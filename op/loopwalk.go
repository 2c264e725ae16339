package op

import "github.com/galley-ml/galley/array"

// walkDim is one dim of the rows of a loop, and its stride in elements.
type walkDim struct{ size, stride int }

// rowWalk locates the rows of a loop in an operand or a result: the offset of a row by its number, and the
// step between columns, 1 or 0.
type rowWalk struct {
	offset int
	dims   []walkDim // outermost first, merged as far as strides allow
	step   int
}

// at returns the offset of row r, the number of rows from it on that are evenly spaced, and their distance.
func (w rowWalk) at(r int) (offset, run, stride int) {
	offset = w.offset
	for i := len(w.dims) - 1; i >= 0; i-- {
		d := w.dims[i]
		pos := r
		if i > 0 {
			pos = r % d.size
		}
		offset += pos * d.stride
		if i == len(w.dims)-1 {
			run, stride = d.size-pos, d.stride
		}
		r /= d.size
	}
	return offset, max(run, 1), stride
}

// blocks returns the number of blocks of n rows from row r on that are evenly spaced, and their distance.
func (w rowWalk) blocks(r, n int) (count, apart int) {
	k := len(w.dims) - 1
	last := w.dims[k]
	if k == 0 {
		return max(1, (last.size-r)/n), n * last.stride
	}
	pos := r % last.size
	if n < last.size || pos > 0 {
		return (last.size - pos) / n, n * last.stride
	}
	next := w.dims[k-1]
	pos = r / last.size
	if k > 1 {
		pos %= next.size
	}
	return next.size - pos, next.stride
}

// still reports whether all rows are the same row.
func (w rowWalk) still() bool { return len(w.dims) == 1 && w.dims[0].stride == 0 }

// even reports whether all adjacent rows have the given distance.
func (w rowWalk) even(stride int) bool { return len(w.dims) == 1 && w.dims[0].stride == stride }

// equal reports whether two walks visit the same elements.
func (w rowWalk) equal(v rowWalk) bool {
	if w.offset != v.offset || w.step != v.step || len(w.dims) != len(v.dims) {
		return false
	}
	for i, d := range w.dims {
		if d != v.dims[i] {
			return false
		}
	}
	return true
}

// mergedDims drops dims of size one and merges evenly spaced ones. At least one remains.
func mergedDims(dims []walkDim) []walkDim {
	var out []walkDim
	for _, d := range dims {
		if d.size == 1 {
			continue
		}
		if k := len(out) - 1; k >= 0 && out[k].stride == d.stride*d.size {
			out[k] = walkDim{out[k].size * d.size, d.stride}
			continue
		}
		out = append(out, d)
	}
	if len(out) == 0 {
		out = []walkDim{{1, 0}}
	}
	return out
}

// broadcastDims returns how an operand of shape s is read while a result of shape out is written in order.
func broadcastDims(s, out array.Shape) []walkDim {
	dims := make([]walkDim, len(out))
	for d, stride := range broadcastStrides(s, out) {
		dims[d] = walkDim{out[d], stride}
	}
	return mergedDims(dims)
}

// inRows splits merged dims into rows of cols elements; false if a row would not be evenly spaced.
func inRows(dims []walkDim, cols int) (rowWalk, bool) {
	last := dims[len(dims)-1]
	if cols == 1 {
		return rowWalk{dims: dims}, true
	}
	if last.size%cols != 0 || last.stride != 0 && last.stride != 1 {
		return rowWalk{}, false
	}
	rows := append([]walkDim{}, dims[:len(dims)-1]...)
	rows = append(rows, walkDim{last.size / cols, last.stride * cols})
	return rowWalk{dims: mergedDims(rows), step: last.stride}, true
}

// isRow reports whether merged dims read one element per row, in order.
func isRow(dims []walkDim, rows, cols int) bool {
	if rows == 1 {
		return len(dims) == 1 && dims[0].stride == 0
	}
	w, ok := inRows(dims, cols)
	return ok && w.step == 0 && w.even(1)
}

// cut returns the walk over the columns from lo on, with times pieces of cols columns each as rows.
func (w rowWalk) cut(rows, lo, times, cols int) rowWalk {
	dims := append([]walkDim{}, w.dims...)
	if rows == 1 { // one dim without a stride
		dims = nil
	}
	dims = append(dims, walkDim{times, cols * w.step})
	return rowWalk{offset: w.offset + lo*w.step, dims: mergedDims(dims), step: w.step}
}
