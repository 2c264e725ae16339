package runtime

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Shards is the data of an eager tensor that is on a mesh: what each device of this process holds of it.
type Shards struct {
	op.Layout
	// Parts is by device; those of other processes have theirs there.
	Parts map[int]array.Array
	// Line is the one that asked for the layout; empty where an op led to it.
	Line ir.Pos
}

// String says the layout of the tensor.
func (s *Shards) String() string { return fmt.Sprintf("%v on %v", s.Spec, s.Mesh) }

// TensorLayout returns the tensor's layout, for op.LayoutOf.
func (s *Shards) TensorLayout() op.Layout { return s.Layout }

// LaidAt returns the line that asked for the tensor's layout, for op.LaidAt.
func (s *Shards) LaidAt() ir.Pos { return s.Line }

// ShardsOf returns the layout of an eager tensor, and whether it is on a mesh at all.
func ShardsOf(x *op.Tensor) (*Shards, bool) {
	s, ok := x.Store().(*Shards)
	return s, ok
}

// layout returns the tensor's layout; the Spec was checked when the shards were made.
func (s *Shards) layout(shape array.Shape) (*mesh.Layout, error) { return s.Spec.Layout(s.Mesh, shape) }
