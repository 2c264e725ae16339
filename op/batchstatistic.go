package op

import "fmt"

// batchStatistic is x, a sum over all rows of a batch that is divided by how many elements it is of, as a
// statistic: where a batch is cut into micro-batches each of them has its own.
type batchStatistic struct {
	identity
	// Each is how many elements of a row are in the sum; what is divided by is Less fewer than all.
	Each, Less int
}

// RowStatistic is an op that makes of a share in a sum over rows a statistic of some rows alone.
type RowStatistic interface {
	Op
	// RowScale returns what the share of n of so many rows is multiplied by.
	RowScale(rows, n int) (float64, error)
}

func (batchStatistic) Name() string { return "batch_statistic" }

// VJP returns the same of what comes back: it, too, is a sum over rows.
func (o batchStatistic) VJP(_, _, dy []*Tensor) []*Tensor { return []*Tensor{apply1(o, dy[0])} }

// Fold keeps it: micro-batches are cut after passes have run.
func (batchStatistic) Fold([]*Tensor) *Tensor { return nil }

// RowScale divides by the elements of n rows in place of all.
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
