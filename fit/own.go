package fit

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
)

// partFunc makes the rows of batch i for which own returns true.
type partFunc func(i int, own func(row int) bool) ([]array.Array, error)

// ownRows returns the function that makes batches: whole ones or, in a job of several processes, only the
// rows that this process reads, if the loader can make those alone.
func (f *fit) ownRows(
	whole func(i int) ([]array.Array, error),
	part partFunc,
	c data.AheadConfig,
) func(i int) ([]array.Array, error) {
	s, ok := f.t.(Owner)
	if !ok || part == nil || f.t.Peers() == nil || c.Count == 0 {
		return whole
	}
	like, err := whole(c.First)
	if err != nil {
		return whole // the loop makes this batch again and reports the error
	}
	own, err := s.OwnRows(like)
	if err != nil || !slices.Contains(own, false) {
		return whole
	}
	mine := func(row int) bool { return row < len(own) && own[row] }
	return func(i int) ([]array.Array, error) {
		batch, err := part(i, mine)
		if err == nil && !slices.EqualFunc(batch, like, sameType) { // this process may read other rows of it
			return whole(i)
		}
		return batch, err
	}
}

func sameType(a, b array.Array) bool { return a.DType() == b.DType() && a.Shape().Equal(b.Shape()) }
