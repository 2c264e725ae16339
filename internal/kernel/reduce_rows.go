package kernel

// rowBlock is the number of rows added one after another before the partial sum
// joins the total; it bounds the rounding error of long columns and is part of
// the definition of the result.
const rowBlock = 256

// AddRows sets dst[j] to the sum over i < rows of src[i*cols+j] for j < cols.
// Every column is summed in the same fixed order whatever cols is.
func AddRows[T Float](dst, src []T, rows, cols int) {
	AddRowsStride(dst[:cols], src, rows, cols)
}

// AddRowsStride sets dst[j] to the sum over i < rows of src[i*stride+j] for
// j < len(dst). Callers give threads different columns, never different rows,
// which keeps the order of the additions fixed.
func AddRowsStride[T Float](dst, src []T, rows, stride int) {
	clear(dst)
	if rows == 0 || len(dst) == 0 {
		return
	}
	src = src[:(rows-1)*stride+len(dst)]
	for lo := 0; lo < rows; lo += rowBlock {
		n := min(rowBlock, rows-lo)
		addRowBlock(dst, src[lo*stride:], n, stride)
	}
}

// addRowBlock adds the sum of the rows to dst: dst[j] += sum of src[i*stride+j].
func addRowBlock[T Float](dst, src []T, rows, stride int) {
	if f := simd.addRows; f != nil {
		if d := as32(dst); d != nil {
			f(d, as32(src), rows, stride)
			return
		}
	}
	var acc [64]T
	for lo := 0; lo < len(dst); lo += len(acc) {
		w := min(len(acc), len(dst)-lo)
		clear(acc[:])
		for i := range rows {
			for j, v := range src[i*stride+lo : i*stride+lo+w] {
				acc[j] += v
			}
		}
		for j, v := range acc[:w] {
			dst[lo+j] += v
		}
	}
}
