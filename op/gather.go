package op

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
)

// copyRows copies, for each outer position of src, the rows with the given indices, or zeros for negative
// indices; g.reduced is the number of rows of src.
func copyRows(env *Env, dst, src array.Array, idx []int, g group) {
	width := g.inner * dst.DType().Size()
	d, s := dst.Bytes(), src.Bytes()
	n := len(idx)
	env.rows(g.outer*n, g.inner, func(lo, hi int) {
		for t := lo; t < hi; t++ {
			to, row := d[t*width:(t+1)*width], idx[t%n]
			if row < 0 {
				clear(to)
				continue
			}
			from := (t/n*g.reduced + row) * width
			copy(to, s[from:from+width])
		}
	})
}

// rowLists holds, for each row, the positions whose index selects it, in order. Negative indices select none.
type rowLists struct{ start, positions []int }

func listRows(idx []int, rows int) rowLists {
	start := make([]int, rows+1)
	for _, r := range idx {
		if r >= 0 {
			start[r+1]++
		}
	}
	for r := range rows {
		start[r+1] += start[r]
	}
	next, positions := slices.Clone(start), make([]int, len(idx))
	for p, r := range idx {
		if r >= 0 {
			positions[next[r]] = p
			next[r]++
		}
	}
	return rowLists{start, positions}
}

// addRows adds each row of src to the row of dst that its index selects, in order: the transpose of copyRows.
// Each row of dst belongs to one task, so the sum does not depend on the number of threads.
func addRows[T floats](env *Env, dst, src []T, idx []int, g group) {
	lists, n := listRows(idx, g.reduced), len(idx)
	env.rows(g.outer*g.reduced, g.inner*(1+n/max(g.reduced, 1)), func(lo, hi int) {
		for t := lo; t < hi; t++ {
			o, r := t/g.reduced, t%g.reduced
			row := dst[t*g.inner : (t+1)*g.inner]
			for _, p := range lists.positions[lists.start[r]:lists.start[r+1]] {
				at := (o*n + p) * g.inner
				kernel.Add(row, row, src[at:at+g.inner])
			}
		}
	})
}

// addRowsInto is like addRows on arrays.
func addRowsInto(env *Env, dst, src array.Array, idx []int, g group) {
	if src.Len() == 0 {
		return
	}
	float(dst,
		func() { addRows(env, array.Data[float32](dst), array.Data[float32](src), idx, g) },
		func() { addRows(env, array.Data[float64](dst), array.Data[float64](src), idx, g) })
}

// sameMemory reports whether two arrays begin at the same address.
func sameMemory(a, b array.Array) bool {
	x, y := a.Bytes(), b.Bytes()
	return len(x) > 0 && len(y) > 0 && &x[0] == &y[0]
}

// startFrom copies x to out, unless they share memory.
func startFrom(env *Env, out, x array.Array) {
	if !sameMemory(out, x) {
		copyBytes(env, out, x)
	}
}

// dimList returns a list of dims as StableHLO writes it.
func dimList(dims []int) string {
	words := make([]string, len(dims))
	for i, d := range dims {
		words[i] = fmt.Sprint(d)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// dimsExcept returns the dims of rank except count of them, starting at first.
func dimsExcept(rank, first, count int) []int {
	var dims []int
	for d := range rank {
		if d < first || d >= first+count {
			dims = append(dims, d)
		}
	}
	return dims
}

func upTo(n int) []int { return dimsExcept(n, n, 0) }

// emitTakeRows writes a gather of x with dim replaced by the dims of index.
func emitTakeRows(w *hlo.Writer, x, index hlo.Ref, dim int, out Type) hlo.Ref {
	r := len(index.Shape)
	sizes := x.Shape.Clone()
	sizes[dim] = 1
	attrs := fmt.Sprintf("dimension_numbers = #stablehlo.gather<offset_dims = %s, collapsed_slice_dims = [%d], "+
		"start_index_map = [%d], index_vector_dim = %d>, slice_sizes = %s, indices_are_sorted = false",
		dimList(dimsExcept(len(out.Shape), dim, r)), dim, dim, r, hlo.Ints(sizes))
	return w.Op("gather", attrs, hloType(out), x, index)
}

// emitAddRows writes x with the rows of src added at the indices.
func emitAddRows(w *hlo.Writer, x, index, src hlo.Ref, dim int) hlo.Ref {
	r := len(index.Shape)
	dims := fmt.Sprintf("update_window_dims = %s, inserted_window_dims = [%d], scatter_dims_to_operand_dims "+
		"= [%d], index_vector_dim = %d",
		dimList(dimsExcept(len(src.Shape), dim, r)), dim, dim, r)
	return emitScatter(w, x, index, src, dims)
}

// emitScatter adds elements of src to x with the given scatter dimension numbers; 16-bit floats in float32,
// because many may be added.
func emitScatter(w *hlo.Writer, x, index, src hlo.Ref, dims string) hlo.Ref {
	d := x.DType.Compute()
	wide, add := w.Convert(x, d), w.Convert(src, d)
	attrs := "scatter_dimension_numbers = #stablehlo.scatter<" + dims +
		">, indices_are_sorted = false, unique_indices = false"
	y := w.OpN("scatter", attrs, []string{w.Binary("add", d)}, []hlo.Type{wide.Type}, wide, index, add)[0]
	return w.Convert(y, x.DType)
}

// emitPoints writes, for each element of index, its full position: its own in every dim except dim.
func emitPoints(w *hlo.Writer, index hlo.Ref, dim int) hlo.Ref {
	rank := len(index.Shape)
	if index.DType == array.U8 { // too small for other dims
		index = w.Convert(index, array.I32)
	}
	column := hlo.Type{DType: index.DType, Shape: append(index.Shape.Clone(), 1)}
	columns := make([]hlo.Ref, rank)
	for d := range rank {
		if d == dim {
			columns[d] = w.Op("reshape", "", column, index)
		} else {
			columns[d] = w.Op("iota", fmt.Sprintf("iota_dimension = %d : i64", d), column)
		}
	}
	points := hlo.Type{DType: index.DType, Shape: append(index.Shape.Clone(), rank)}
	return w.Op("concatenate", fmt.Sprintf("dimension = %d : i64", rank), points, columns...)
}

func emitTakeAlong(w *hlo.Writer, x, index hlo.Ref, dim int, out Type) hlo.Ref {
	rank := len(x.Shape)
	attrs := fmt.Sprintf("dimension_numbers = #stablehlo.gather<collapsed_slice_dims = %[1]s, "+
		"start_index_map = %[1]s, "+
		"index_vector_dim = %[2]d>, slice_sizes = %[3]s, indices_are_sorted = false", dimList(upTo(rank)), rank,
		hlo.Ints(ones(rank)))
	return w.Op("gather", attrs, hloType(out), x, emitPoints(w, index, dim))
}

func emitAddAlong(w *hlo.Writer, x, index, src hlo.Ref, dim int) hlo.Ref {
	rank := len(x.Shape)
	dims := fmt.Sprintf("inserted_window_dims = %[1]s, scatter_dims_to_operand_dims = %[1]s, "+
		"index_vector_dim = %[2]d",
		dimList(upTo(rank)), rank)
	return emitScatter(w, x, emitPoints(w, index, dim), src, dims)
}
