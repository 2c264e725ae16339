package spmd_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/galley-ml/galley/mesh"
)

// randomLie is a Spec for tensors of a rank in which each axis, whole or cut into parts anyhow, holds copies,
// splits a dim at any place among those that do, or is pending in one of the ways.
func randomLayout(rng *rand.Rand, m *mesh.Mesh, rank int, kinds []mesh.Reduce) mesh.Spec {
	s := mesh.Whole(rank)
	for _, a := range m.Axes() {
		for _, part := range randomCuts(rng, m, a) {
			switch k := rng.IntN(rank + 2); {
			case k < rank:
				at := rng.IntN(len(s.Dims[k]) + 1)
				s.Dims[k] = slices.Insert(s.Dims[k], at, part)
			case k == rank && len(kinds) > 0:
				s.Partial = append(s.Partial, mesh.Pending{Sub: part, Reduce: kinds[rng.IntN(len(kinds))]})
			}
		}
	}
	return s.With(s.Partial...)
}

// randomCuts returns an axis cut into parts, or left whole.
func randomCuts(rng *rand.Rand, m *mesh.Mesh, a mesh.Axis) mesh.Axes {
	list := mesh.Axes{{Axis: a.Name}}
	for rng.IntN(2) == 0 {
		last := len(list) - 1
		n := m.Extent(list[last])
		major, minor, ok := m.Cut(list[last], 2+rng.IntN(max(n-1, 1)))
		if !ok {
			break
		}
		list = append(list[:last], major, minor)
	}
	return list
}

// TestChains: from any Spec to any Spec and on to the next, whatever parts of axes they name, nothing is
// refused and nothing changes.
func TestChains(t *testing.T) {
	chains := 150
	if *long {
		chains = 15000
	}
	kinds := []mesh.Reduce{mesh.Sum, mesh.Mean, mesh.Max, mesh.Min, mesh.Prod}
	meshes := []string{"x=6", "x=12", "x=4,y=2", "x=2,y=6", "x=8", "x=3,y=2,z=2", "x=4,y=3"}
	shapes := [][]int{{6, 12}, {5, 7}, {1, 8}, {0, 3}, {12}, {7}, {4, 3, 5}, {}, {2, 12, 6}}
	for i := range chains {
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		m, shape := parseMesh(t, meshes[i%len(meshes)]), shapes[rng.IntN(len(shapes))]
		from := randomLayout(rng, m, len(shape), kinds)
		for range 2 {
			to := randomLayout(rng, m, len(shape), kinds)
			if err := reshardRun(t, m, shape, from, to); err != nil {
				t.Errorf("chain %d: %s %v from %s to %s: %v", i, m, shape, from, to, err)
			}
			from = to
		}
	}
}
