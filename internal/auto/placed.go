package auto

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// heldOn returns the mesh of a parameter's value, and whether it is on one.
func heldOn(p *nn.Param) (*mesh.Mesh, bool) {
	if p.Value == nil {
		return nil, false
	}
	at, ok := op.LayoutOf(p.Value)
	return at.Mesh, ok
}

// meshesOf finds the meshes of the model's tensors. The search is then over the rest: ZeRO, micro-batches,
// recomputation and, if only activations are on meshes, the layouts of weights.
func (s *space) meshesOf(f *ir.Func) error {
	add := func(m *mesh.Mesh) { s.devices = max(s.devices, slices.Max(m.Devices())+1) }
	for _, p := range s.c.Run.Params {
		if m, ok := heldOn(p); ok {
			add(m)
			s.held = true
		}
	}
	for _, at := range s.c.Run.Loaded {
		if at.Mesh != nil {
			add(at.Mesh)
			s.held = true
		}
	}
	for _, n := range f.Nodes() {
		if c, ok := n.Op().(op.Constrainer); ok {
			m, _, err := c.Constraint()
			if err != nil {
				return &ir.Error{Pos: n.Pos(), Op: n.Op().Name(), Err: err}
			}
			add(m)
		}
	}
	if s.devices > s.c.Machine.Devices {
		return fmt.Errorf("the model's tensors are on devices up to %d: want %d devices: got %d", s.devices-1,
			s.devices, s.c.Machine.Devices)
	}
	return nil
}
