package dtensor

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Axes names the mesh axis that splits the rows of a batch: one for all of its tensors, or one per tensor. An
// empty name, or none at all, replicates the tensor.
type Axes []string

// Loader is a loader whose batches are on meshes. Its Batch method still returns whole batches, which
// ToStatic and Engine split by their strategy.
type Loader struct {
	fit.Loader
	world  *World
	meshes []*mesh.Mesh
	dims   Axes
}

// NewLoader distributes the batches of a loader over meshes: all tensors on one mesh, or each on its own, for
// example inputs on the first stage of a pipeline and labels on the last.
func NewLoader(w *World, l fit.Loader, meshes []*mesh.Mesh, dims Axes) (*Loader, error) {
	if len(meshes) == 0 {
		return nil, fmt.Errorf("shard data loader: want a mesh for all tensors of a batch, or one for each")
	}
	if len(dims) > 1 && len(meshes) > 1 && len(dims) != len(meshes) {
		return nil, fmt.Errorf("shard data loader: %d meshes and %d axes: want one axis, or as many as meshes",
			len(meshes), len(dims))
	}
	s := &Loader{Loader: l, world: w, meshes: meshes, dims: dims}
	for i := range max(len(meshes), len(dims)) {
		m, axis := s.at(i)
		if _, ok := m.Axis(axis); axis != "" && !ok {
			return nil, fmt.Errorf("shard data loader: mesh %v has no axis %q: want one of its axes, or none", m, axis)
		}
	}
	return s, nil
}

// at returns the mesh of tensor i of a batch and the axis that splits it.
func (s *Loader) at(i int) (m *mesh.Mesh, axis string) {
	m = s.meshes[min(i, len(s.meshes)-1)]
	if len(s.dims) > 0 {
		axis = s.dims[min(i, len(s.dims)-1)]
	}
	return m, axis
}

// Layouts returns the mesh and sharding of each tensor of a batch.
func (s *Loader) Layouts() ([]op.Layout, error) {
	batch, err := s.Batch(0)
	if err == nil {
		err = s.fits(batch)
	}
	if err != nil {
		return nil, err
	}
	var list []op.Layout
	for k, a := range batch {
		m, axis := s.at(k)
		list = append(list, op.Layout{Mesh: m, Spec: rowSpec(len(a.Shape()), axis)})
	}
	return list, nil
}

// fits returns an error unless there is a mesh for every tensor of a batch.
func (s *Loader) fits(batch []array.Array) error {
	if n := max(len(s.meshes), len(s.dims)); n > 1 && n != len(batch) {
		return fmt.Errorf("shard data loader: %d meshes and %d axes for a batch of %d tensors: want one, or one "+
			"for each",
			len(s.meshes), len(s.dims), len(batch))
	}
	return nil
}

// rowSpec splits the rows of a tensor by an axis, if there is one.
func rowSpec(rank int, axis string) mesh.Spec {
	spec := mesh.Whole(rank)
	if axis != "" && rank > 0 {
		spec.Dims[0] = mesh.On(axis)
	}
	return spec
}

// Tensors returns batch i as eager tensors on the meshes.
func (s *Loader) Tensors(i int) ([]*op.Tensor, error) {
	batch, err := s.Batch(i)
	if err == nil {
		err = s.fits(batch)
	}
	if err != nil {
		return nil, err
	}
	var out []*op.Tensor
	for k, a := range batch {
		m, axis := s.at(k)
		x := ShardBySpec(s.world.Tensor(a), m, rowSpec(len(a.Shape()), axis))
		if x.Err() != nil {
			return nil, fmt.Errorf("shard data loader: batch %d: tensor %d: %w", i, k, x.Err())
		}
		out = append(out, x)
	}
	return out, nil
}
