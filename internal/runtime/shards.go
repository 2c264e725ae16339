package runtime

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Shards is the data of an eager tensor on a mesh: the shards of this process's devices.
type Shards struct {
	op.Layout
	// Parts holds the shards by device; those of devices of other processes are missing.
	Parts map[int]array.Array
	// Line is the source line that requested the layout; empty if an op produced it.
	Line ir.Pos
}

// String prints the layout of the tensor.
func (s *Shards) String() string { return fmt.Sprintf("%v on %v", s.Spec, s.Mesh) }

// TensorLayout returns the tensor's layout, for op.LayoutOf.
func (s *Shards) TensorLayout() op.Layout { return s.Layout }

// LaidAt returns the source line that requested the tensor's layout, for op.LaidAt.
func (s *Shards) LaidAt() ir.Pos { return s.Line }

// ShardsOf returns the shards of an eager tensor, and whether it is on a mesh at all.
func ShardsOf(x *op.Tensor) (*Shards, bool) {
	s, ok := x.Store().(*Shards)
	return s, ok
}

// layout returns the tensor's layout; the Spec was checked when the shards were made.
func (s *Shards) layout(shape array.Shape) (*mesh.Layout, error) { return s.Spec.Layout(s.Mesh, shape) }
