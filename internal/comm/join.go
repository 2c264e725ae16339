package comm

import (
	"unsafe"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/kernel"
)

// floatJoin returns the kernel that combines two contributions.
func floatJoin[T kernel.Float](by Reduce) func(dst, x, y []T) {
	switch by {
	case Max:
		return kernel.Max[T]
	case Min:
		return kernel.Min[T]
	case Prod:
		return kernel.Mul[T]
	}
	return kernel.Add[T]
}

// integer is the integer element types; sums and products wrap around as Go's do.
type integer interface{ int64 | int32 | int16 | uint8 }

// intJoin is like floatJoin for integers.
func intJoin[T integer](by Reduce) func(dst, x, y []T) {
	switch by {
	case Max:
		return func(dst, x, y []T) {
			for i := range dst {
				dst[i] = max(x[i], y[i])
			}
		}
	case Min:
		return func(dst, x, y []T) {
			for i := range dst {
				dst[i] = min(x[i], y[i])
			}
		}
	case Prod:
		return func(dst, x, y []T) {
			for i := range dst {
				dst[i] = x[i] * y[i]
			}
		}
	}
	return func(dst, x, y []T) {
		for i := range dst {
			dst[i] = x[i] + y[i]
		}
	}
}

// scale divides the sum of k contributions for a mean; nil for other reductions.
func scale[T kernel.Float](by Reduce, k int) func(block []T) {
	switch {
	case by != Mean || k == 1:
		return nil
	case k&(k-1) == 0: // the reciprocal is exact, so the product is the quotient
		return func(block []T) { kernel.MulScalar(block, block, 1/T(k)) }
	}
	return func(block []T) {
		for i := range block {
			block[i] /= T(k)
		}
	}
}

// elements returns the memory of arrays as elements of their size; nil for the zero Array.
func elements[T any](arrays []array.Array) [][]T {
	data := make([][]T, len(arrays))
	for i, a := range arrays {
		data[i] = elementsOf[T](a.Bytes())
	}
	return data
}

func elementsOf[T any](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(zero)))
}
