package executor

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// MicroRows is how many of a batch's rows each of n micro-batches has: as evenly as it goes, the larger ones first.
func MicroRows(batch, n int) ([]int, error) {
	if batch < n {
		return nil, fmt.Errorf("strategy: a batch of %d rows cannot be cut into %d micro-batches: want micro=%d or a batch of %d", batch, n, batch, n)
	}
	return Spread(batch, n), nil
}

// Spread is n rows in k groups, the larger ones first.
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

// CutMicros cuts a batch into n micro-batches.
func CutMicros(batch []array.Array, n int) ([][]array.Array, error) {
	if len(batch) == 0 || len(batch[0].Shape()) == 0 {
		return nil, fmt.Errorf("strategy: batch is %v: want tensors whose first dim can be cut", TypesOf(batch))
	}
	rows, err := MicroRows(batch[0].Shape()[0], n)
	if err != nil {
		return nil, err
	}
	return CutRows(batch, rows)
}

// MicroTypes is the types of each of n micro-batches of a batch.
func MicroTypes(batch []ir.Type, n int) ([][]ir.Type, error) {
	if len(batch) == 0 || len(batch[0].Shape) == 0 {
		return nil, fmt.Errorf("strategy: batch is %v: want tensors whose first dim can be cut", batch)
	}
	rows, err := MicroRows(batch[0].Shape[0], n)
	if err != nil {
		return nil, err
	}
	list := make([][]ir.Type, n)
	for m := range list {
		for _, t := range batch {
			list[m] = append(list[m], WithRows(t, rows[m]))
		}
	}
	return list, nil
}

// WithRows is a type of so many rows.
func WithRows(t ir.Type, rows int) ir.Type {
	if len(t.Shape) == 0 {
		return t
	}
	return ir.Type{DType: t.DType, Shape: append(array.Shape{rows}, t.Shape[1:]...)}
}

// CutRows cuts a batch.
func CutRows(batch []array.Array, rows []int) ([][]array.Array, error) {
	parts := make([][]array.Array, len(rows))
	at := 0
	for m, n := range rows {
		for _, a := range batch {
			if len(a.Shape()) == 0 || a.Shape()[0] != batch[0].Shape()[0] {
				return nil, fmt.Errorf("batch: tensors of shapes %v and %v: want as many rows, or no micro-batches", batch[0].Shape(), a.Shape())
			}
			parts[m] = append(parts[m], a.Rows(at, at+n))
		}
		at += n
	}
	return parts, nil
}

// TypesOf is a batch's types.
func TypesOf(batch []array.Array) []ir.Type {
	var types []ir.Type
	for _, a := range batch {
		types = append(types, ir.TypeOf(a))
	}
	return types
}

// UpTo is the numbers from lo up to hi, without hi.
func UpTo(lo, hi int) []int {
	list := make([]int, hi-lo)
	for i := range list {
		list[i] = lo + i
	}
	return list
}
