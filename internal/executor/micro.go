package executor

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// MicroRows returns the number of rows of each of n micro-batches: as even as possible, the larger ones
// first.
func MicroRows(batch, n int) ([]int, error) {
	if batch < n {
		return nil, fmt.Errorf(
			"strategy: a batch of %d rows cannot be cut into %d micro-batches: want micro=%d or a batch of %d",
			batch,
			n,
			batch,
			n,
		)
	}
	return Spread(batch, n), nil
}

// Spread splits n rows into k groups as evenly as possible, the larger ones first.
func Spread(n, k int) []int {
	rows := make([]int, k)
	for i := range rows {
		rows[i] = n / k
		if i < n%k {
			rows[i]++
		}
	}
	return rows
}

// RowsIn returns the number of rows of a batch of these types; scalars have no rows and apply to all.
func RowsIn(batch []ir.Type) (int, error) {
	for _, t := range batch {
		if len(t.Shape) > 0 {
			return t.Shape[0], nil
		}
	}
	return 0, fmt.Errorf("strategy: batch is %v: want tensors whose first dim can be cut", batch)
}

// hasRows reports whether the first dim of a tensor is the rows of a batch: other tensors, such as scalars
// and masks of a sequence, are the same for all rows.
func hasRows(t ir.Type, rows int) bool { return len(t.Shape) > 0 && t.Shape[0] == rows }

// CutRows splits a batch. Tensors without rows go to every part.
func CutRows(batch []array.Array, rows []int) ([][]array.Array, error) {
	all, err := RowsIn(TypesOf(batch))
	if err != nil {
		return nil, err
	}
	parts := make([][]array.Array, len(rows))
	at := 0
	for m, n := range rows {
		for _, a := range batch {
			if len(rows) > 1 && hasRows(ir.TypeOf(a), all) {
				a = a.Rows(at, at+n)
			}
			parts[m] = append(parts[m], a)
		}
		at += n
	}
	return parts, nil
}

// TypesOf returns a batch's types.
func TypesOf(batch []array.Array) []ir.Type {
	var types []ir.Type
	for _, a := range batch {
		types = append(types, ir.TypeOf(a))
	}
	return types
}

// UpTo returns the numbers from lo up to hi, without hi.
func UpTo(lo, hi int) []int {
	list := make([]int, hi-lo)
	for i := range list {
		list[i] = lo + i
	}
	return list
}
