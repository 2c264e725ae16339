package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
)

// Squeeze drops those of dims that have size one; no dims means all.
func Squeeze(x *Tensor, dims ...int) *Tensor {
	if x.Err() != nil {
		return x
	}
	drop := normDims(len(x.Shape()), dims)
	var shape []int
	for d, n := range x.Shape() {
		if n != 1 || !slices.Contains(drop, d) {
			shape = append(shape, n)
		}
	}
	return Reshape(x, shape...)
}

// Unsqueeze inserts a dim of size one at dim; a negative dim counts from the end of the result.
func Unsqueeze(x *Tensor, dim int) *Tensor {
	if x.Err() != nil {
		return x
	}
	d := normDim(len(x.Shape())+1, dim)
	if d < 0 || d > len(x.Shape()) {
		return misplaced(x, "unsqueeze", dim)
	}
	return Reshape(x, slices.Insert(x.Shape().Clone(), d, 1)...)
}

// Flatten merges the dims from first to last, both included.
func Flatten(x *Tensor, first, last int) *Tensor {
	if x.Err() != nil {
		return x
	}
	rank := len(x.Shape())
	if rank == 0 {
		return Reshape(x, 1)
	}
	a, b := normDim(rank, first), normDim(rank, last)
	if a < 0 || a > b || b >= rank {
		return misplaced(x, "flatten", first, last)
	}
	shape := append(x.Shape()[:a].Clone(), x.Shape()[a:b+1].Len())
	return Reshape(x, append(shape, x.Shape()[b+1:]...)...)
}

// misplaced returns an invalid tensor for dims that x does not have.
func misplaced(x *Tensor, name string, dims ...int) *Tensor {
	return refuse(x, name, "dims %v do not fit %v", dims, x.Type())
}

// refuse returns an invalid tensor for invalid arguments of a function that consists of several ops.
func refuse(x *Tensor, name, format string, args ...any) *Tensor {
	return ir.Apply(mistake{name: name, err: fmt.Errorf(format, args...)}, x)[0]
}

// mistake is an op for invalid arguments of a function that consists of several ops: when applied, it fails
// with the name of the function and the caller's position, as an op would.
type mistake struct {
	name string
	err  error
}

func (o mistake) Name() string                       { return o.name }
func (o mistake) Infer([]ir.Type) ([]ir.Type, error) { return nil, o.err }
