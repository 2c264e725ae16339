package galley

import (
	"fmt"

	"github.com/galley-ml/galley/array"
)

// microRows is how many of a batch's rows each of n micro-batches has: as evenly as it goes, the larger ones first.
func microRows(batch, n int) ([]int, error) {
	if batch < n {
		return nil, fmt.Errorf("strategy: a batch of %d rows cannot be cut into %d micro-batches: want micro=%d or a batch of %d", batch, n, batch, n)
	}
	return spread(batch, n), nil
}

// spread is n rows in k groups, the larger ones first.
func spread(n, k int) []int {
	rows := make([]int, k)
	for i := range rows {
		rows[i] = n / k
		if i < n%k {
			rows[i]++
		}
	}
	return rows
}

// cutMicros cuts a batch into n micro-batches.
func cutMicros(batch []array.Array, n int) ([][]array.Array, error) {
	if len(batch) == 0 || len(batch[0].Shape()) == 0 {
		return nil, fmt.Errorf("strategy: batch is %v: want tensors whose first dim can be cut", typesOf(batch))
	}
	rows, err := microRows(batch[0].Shape()[0], n)
	if err != nil {
		return nil, err
	}
	return cutRows(batch, rows)
}

// cutRows cuts a batch.
func cutRows(batch []array.Array, rows []int) ([][]array.Array, error) {
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
