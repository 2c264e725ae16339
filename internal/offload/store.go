package offload

import (
	"errors"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// Store keeps tensors of fixed types. Its methods may be called concurrently.
type Store interface {
	// Put copies an array to be tensor i.
	Put(i int, a array.Array) error
	// Get copies tensor i into an array; zeros if it was never put.
	Get(i int, into array.Array) error
	// GetPart copies bytes of tensor i from an offset on.
	GetPart(i, offset int, into []byte) error
	// Bytes returns the room that the store takes where it keeps things: host memory or disk.
	Bytes() int
	// Close gives the room back. What is called after it is an error.
	Close() error
}

var errClosed = errors.New("offload: the store is closed")

// check holds an array against the type of tensor i.
func check(verb string, types []ir.Type, i int, a array.Array) error {
	if i < 0 || i >= len(types) {
		return fmt.Errorf("offload: %s: got tensor %d, want one of %d", verb, i, len(types))
	}
	if a.DType() != types[i].DType || !a.Shape().Equal(types[i].Shape) {
		return fmt.Errorf("offload: %s: tensor %d: got %v%v, want %v", verb, i, a.DType(), a.Shape(), types[i])
	}
	return nil
}

// checkPart holds bytes against those of tensor i.
func checkPart(types []ir.Type, i, offset int, into []byte) error {
	if i < 0 || i >= len(types) {
		return fmt.Errorf("offload: get: got tensor %d, want one of %d", i, len(types))
	}
	if n := types[i].Bytes(); offset < 0 || offset > n || len(into) > n-offset {
		return fmt.Errorf(
			"offload: get: tensor %d: got %d bytes from %d on, want some of %d",
			i,
			len(into),
			offset,
			n,
		)
	}
	return nil
}

// copyTypes checks types and copies them.
func copyTypes(types []ir.Type) ([]ir.Type, error) {
	own := make([]ir.Type, len(types))
	for i, t := range types {
		if t.DType.Size() == 0 || !t.Shape.Valid() {
			return nil, fmt.Errorf("offload: tensor %d: got %v, want the type of an array", i, t)
		}
		own[i] = ir.Type{DType: t.DType, Shape: t.Shape.Clone()}
	}
	return own, nil
}
