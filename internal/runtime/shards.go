package runtime

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Shards is the data of an eager tensor that lies on a mesh: what each device of this process holds of it.
type Shards struct {
	op.Lie
	// Parts is by device; those of other processes have theirs there.
	Parts map[int]array.Array
}

// String says how the tensor lies.
func (s *Shards) String() string { return fmt.Sprintf("%v on %v", s.Spec, s.Mesh) }

// Lies is how the tensor lies, for op.LieOf.
func (s *Shards) Lies() op.Lie { return s.Lie }

// ShardsOf is how an eager tensor lies, and whether it lies on a mesh at all.
func ShardsOf(x *op.Tensor) (*Shards, bool) {
	s, ok := x.Store().(*Shards)
	return s, ok
}

// layout is the tensor's layout; the Spec was checked when the shards were made.
func (s *Shards) layout(shape array.Shape) (*mesh.Layout, error) { return s.Spec.Layout(s.Mesh, shape) }
