package layout

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/mesh"
)

// rank is a group of devices connected by meshes that share devices.
type rank struct {
	devices []int // in order
	meshes  []*mesh.Mesh
}

// ranksOf returns the devices of meshes in disjoint groups. Meshes that are requested only for what depends
// on the batch connect nothing: what they request for devices of several ranks holds on each.
func ranksOf(list []meshRequest) []*rank {
	var ranks []*rank
	for _, strong := range []bool{true, false} {
		for _, a := range list {
			if a.strong != strong {
				continue
			}
			own := &rank{devices: slices.Sorted(slices.Values(a.mesh.Devices())), meshes: []*mesh.Mesh{a.mesh}}
			var apart, shared []*rank
			for _, r := range ranks {
				if r.shares(own) {
					shared = append(shared, r)
				} else {
					apart = append(apart, r)
				}
			}
			if !strong && (len(shared) > 1 || len(shared) == 1 && !shared[0].covers(a.mesh)) {
				continue
			}
			ranks = append(apart, join(append(shared, own)))
		}
	}
	return ranks
}

// join merges ranks into one.
func join(list []*rank) *rank {
	out := &rank{}
	for _, r := range list {
		out.devices = append(out.devices, r.devices...)
		for _, m := range r.meshes {
			if !slices.ContainsFunc(out.meshes, m.Equal) {
				out.meshes = append(out.meshes, m)
			}
		}
	}
	slices.Sort(out.devices)
	out.devices = slices.Compact(out.devices)
	return out
}

func (r *rank) shares(o *rank) bool {
	return slices.ContainsFunc(o.devices, func(d int) bool { return slices.Contains(r.devices, d) })
}

// covers reports whether a rank has all devices of a mesh.
func (r *rank) covers(m *mesh.Mesh) bool {
	return !slices.ContainsFunc(m.Devices(), func(d int) bool { return !slices.Contains(r.devices, d) })
}

// mesh returns the first mesh with all devices of the rank, or a one-dimensional mesh of them.
func (r *rank) mesh() (*mesh.Mesh, error) {
	for _, m := range r.meshes {
		if m.Size() == len(r.devices) {
			return m, nil
		}
	}
	return mesh.New([]mesh.Axis{{Name: "devices", Size: len(r.devices)}}, r.devices...)
}

// rankOf returns the number of the rank that has all devices of a mesh; -1 if none has.
func rankOf(ranks []*rank, m *mesh.Mesh) int {
	return slices.IndexFunc(ranks, func(r *rank) bool { return r.covers(m) })
}

// meshesOf returns the meshes of ranks.
func meshesOf(ranks []*rank) ([]*mesh.Mesh, error) {
	var list []*mesh.Mesh
	for _, r := range ranks {
		m, err := r.mesh()
		if err != nil {
			return nil, fmt.Errorf("devices %v: %w", r.devices, err)
		}
		list = append(list, m)
	}
	return list, nil
}
