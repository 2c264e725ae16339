package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
)

// IndexError is an index among an op's data that is out of range. It is found only while computing, so Eval
// panics with it; a backend recovers and returns it.
type IndexError struct {
	Op           string
	Index, Limit int
}

func (e *IndexError) Error() string {
	return fmt.Sprintf("index %d is out of range: want 0 to %d", e.Index, e.Limit-1)
}

// wantIndices checks that t is an integer type that can hold indices.
func wantIndices(t Type) error {
	if t.DType != array.I32 && t.DType != array.I64 {
		return fmt.Errorf("want indices of i32 or i64: got %v", t)
	}
	return nil
}

// readIndices returns the elements of a, which must be below limit. It panics with an *IndexError otherwise.
func readIndices(o Op, a array.Array, limit int) []int {
	if a.DType() == array.I32 {
		return checkIndices(o, array.Data[int32](a), limit)
	}
	return checkIndices(o, array.Data[int64](a), limit)
}

func checkIndices[T int32 | int64](o Op, xs []T, limit int) []int {
	out := make([]int, len(xs))
	for i, x := range xs {
		if x < 0 || int(x) >= limit {
			panic(&IndexError{Op: o.Name(), Index: int(x), Limit: limit})
		}
		out[i] = int(x)
	}
	return out
}
