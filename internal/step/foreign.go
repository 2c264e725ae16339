package step

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// infer returns how the values of a stage's program are laid out. What users wrote may name meshes of their
// own, of the stage's devices.
func infer(f *ir.Func, m *mesh.Mesh, asked *wishes) (*shard.Result, error) {
	if err := checkDevices(f, m); err != nil {
		return nil, err
	}
	return shard.Infer(f, shard.Config{Mesh: m, Values: asked.values, Meshes: asked.meshes})
}

// wishes is what is asked of the values of a program, by ID: how they are laid out, and where that is not the
// mesh of the stage.
type wishes struct {
	values map[int]mesh.Sharding
	meshes map[int]*mesh.Mesh
}

// at asks for a value to be closed on a mesh.
func (w *wishes) at(id int, m *mesh.Mesh, s mesh.Spec) {
	w.values[id], w.meshes[id] = mesh.Closed(s), m
}

// checkDevices reports which line asks for other devices than the stage has.
func checkDevices(f *ir.Func, m *mesh.Mesh) error {
	have := slices.Sorted(slices.Values(m.Devices()))
	for _, n := range f.Nodes() {
		c, ok := n.Op().(op.Constrainer)
		if !ok {
			continue
		}
		at, _, err := c.Constraint()
		if err == nil && !m.Covers(at) {
			err = fmt.Errorf("mesh %v: got devices %v, want those of the stage, %v", at, at.Devices(), have)
		}
		if err != nil {
			return &ir.Error{Pos: n.Pos(), Op: n.Op().Name(), Err: err}
		}
	}
	return nil
}
