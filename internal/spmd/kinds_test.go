package spmd_test

import (
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/mesh"
)

// kindSpecs returns every Spec of a vector in which each axis holds copies, splits it, or is pending in one
// of the ways.
func kindSpecs(m *mesh.Mesh, kinds []mesh.Reduce) []mesh.Spec {
	list := []mesh.Spec{mesh.Whole(1)}
	for _, a := range m.Axes() {
		var next []mesh.Spec
		for _, s := range list {
			cut := s.Clone()
			cut.Dims[0] = append(cut.Dims[0], mesh.Sub{Axis: a.Name})
			next = append(next, s, cut)
			for _, k := range kinds {
				p := mesh.Pending{Sub: mesh.Sub{Axis: a.Name}, Reduce: k}
				next = append(next, s.With(append(s.Clone().Partial, p)...))
			}
		}
		list = next
	}
	return list
}

// TestKinds: whatever is pending along one, two and three axes, in ways that differ, comes to the same value
// by any moves to any other Spec. On three axes some pairs are drawn; -long takes all.
func TestKinds(t *testing.T) {
	kinds := []mesh.Reduce{mesh.Sum, mesh.Mean, mesh.Max, mesh.Min, mesh.Prod}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, text := range []string{"x=3", "x=2,y=2", "x=2,y=2,z=2"} {
		m := parseMesh(t, text)
		specs := kindSpecs(m, kinds)
		keep := 1.0
		if m.NumAxes() == 3 && !*long {
			keep = 1500 / float64(len(specs)*len(specs))
		}
		for _, from := range specs {
			for _, to := range specs {
				if rng.Float64() > keep {
					continue
				}
				if err := reshardRun(t, m, []int{5}, from, to); err != nil {
					t.Errorf("%s from %s to %s: %v", text, from, to, err)
				}
			}
		}
	}
}
