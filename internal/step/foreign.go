package step

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// infer is how the values of a stage's program lie. What users wrote may name meshes of their own, of the
// stage's devices; what goes in and out is on the stage's mesh, or is whole.
func infer(f *ir.Func, m *mesh.Mesh, asked map[int]mesh.Sharding) (*shard.Result, error) {
	if err := checkDevices(f, m); err != nil {
		return nil, err
	}
	r, err := shard.Infer(f, shard.Config{Mesh: m, Values: asked})
	if err != nil {
		return nil, err
	}
	for _, v := range f.Results() {
		if id := v.ID(); !r.Meshes[id].Equal(m) && !r.Specs[id].IsWhole() {
			r.Meshes[id], r.Specs[id] = m, mesh.Whole(len(v.Shape()))
		}
	}
	return r, nil
}

// checkDevices says which line asks for other devices than the stage has.
func checkDevices(f *ir.Func, m *mesh.Mesh) error {
	have := slices.Sorted(slices.Values(m.Devices()))
	for _, n := range f.Nodes() {
		c, ok := n.Op().(op.Constrainer)
		if !ok {
			continue
		}
		at, _, err := c.Constraint()
		if err == nil && !slices.Equal(slices.Sorted(slices.Values(at.Devices())), have) {
			err = fmt.Errorf("mesh %v: got devices %v, want the strategy's there, %v", at, at.Devices(), have)
		}
		if err != nil {
			return &ir.Error{Pos: n.Pos(), Op: n.Op().Name(), Err: err}
		}
	}
	return nil
}
