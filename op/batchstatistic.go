package op

import "fmt"

// batchStatistic marks x as a statistic of the batch: a sum over all its rows, divided by the number of
// elements. When a batch is split into micro-batches, each of them then has its own statistic.
type batchStatistic struct {
	identity
	// Each is the number of elements of a row in the sum. The divisor is Less than the number of all elements,
	// as for an unbiased variance.
	Each, Less int
}

// RowStatistic is implemented by ops that rescale one part of a sum over rows to a statistic of those rows
// alone.
type RowStatistic interface {
	Op
	// RowScale returns the factor for a part of n among the given number of rows.
	RowScale(rows, n int) (float64, error)
}

func (batchStatistic) Name() string { return "batch_statistic" }

// VJP applies the same op to the gradient, which is a sum over rows as well.
func (o batchStatistic) VJP(_, _, dy []*Tensor) []*Tensor { return []*Tensor{apply1(o, dy[0])} }

// Fold keeps the op, because batches are split into micro-batches after the passes have run.
func (batchStatistic) Fold([]*Tensor) *Tensor { return nil }

// RowScale divides by the elements of n rows instead of those of all rows.
func (o batchStatistic) RowScale(rows, n int) (float64, error) {
	all, own := rows*o.Each-o.Less, n*o.Each-o.Less
	if own < 1 {
		return 0, fmt.Errorf("statistics of %d rows of %d elements: want %d or more elements", n, o.Each, 1+o.Less)
	}
	return float64(all) / float64(own), nil
}

func (batchStatistic) Samples() []Sample {
	return []Sample{{Op: batchStatistic{Each: 6, Less: 1}, In: []Arg{f32(5)}}}
}
