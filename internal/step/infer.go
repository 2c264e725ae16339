package step

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// infer returns the layouts of the values of a stage's program. Annotations of users may name other meshes of
// the stage's devices.
func infer(f *ir.Func, m *mesh.Mesh, asked *annotations) (*shard.Result, error) {
	if err := checkDevices(f, m); err != nil {
		return nil, err
	}
	return shard.Infer(f, shard.Config{Mesh: m, Values: asked.values, Meshes: asked.meshes})
}

// annotations holds the annotations of a program's values, by ID: their layouts, and their meshes if they are
// not that of the stage.
type annotations struct {
	values map[int]mesh.Sharding
	meshes map[int]*mesh.Mesh
}

// at requests a closed layout of a value on a mesh.
func (w *annotations) at(id int, m *mesh.Mesh, s mesh.Spec) {
	w.values[id], w.meshes[id] = mesh.Closed(s), m
}

// checkDevices returns an error for a line that requests other devices than those of the stage.
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
