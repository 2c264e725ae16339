package seed

import (
	"cmp"
	"slices"

	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
)

// symmetry knows what costs the same: axes of one size and price by any name, and dims that all axes divide
// in any order.
type symmetry struct {
	mesh  *mesh.Mesh
	alike map[string][]string // of an axis: all that are like it, in mesh order
}

func newSymmetry(m *mesh.Mesh, prices spmd.Prices) symmetry {
	s := symmetry{m, map[string][]string{}}
	for _, a := range m.Axes() {
		for _, b := range m.Axes() {
			if a.Size == b.Size && prices.Links[a.Name] == prices.Links[b.Name] {
				s.alike[a.Name] = append(s.alike[a.Name], b.Name)
			}
		}
	}
	return s
}

// canonical returns two Specs of a tensor as one pair that stands for all between which the way costs as
// much.
func (s symmetry) canonical(shape []int, from, to mesh.Spec) (mesh.Spec, mesh.Spec) {
	from, to = s.sortDims(shape, from.Clone(), to.Clone())
	names, taken := map[string]string{}, map[string]bool{}
	rename := func(x mesh.Sub) mesh.Sub {
		if names[x.Axis] == "" {
			all := s.alike[x.Axis]
			names[x.Axis] = all[slices.IndexFunc(all, func(n string) bool { return !taken[n] })]
			taken[names[x.Axis]] = true
		}
		x.Axis = names[x.Axis]
		return x
	}
	for _, spec := range []mesh.Spec{from, to} {
		for _, axes := range spec.Dims {
			for i := range axes {
				axes[i] = rename(axes[i])
			}
		}
		for i := range spec.Partial {
			spec.Partial[i].Sub = rename(spec.Partial[i].Sub)
		}
	}
	return from.With(from.Partial...), to.With(to.Partial...)
}

// sortDims orders the dims that are divided by whatever axes the Specs have: those that more axes split come
// first.
func (s symmetry) sortDims(shape []int, from, to mesh.Spec) (mesh.Spec, mesh.Spec) {
	all := 1
	for _, a := range s.mesh.Axes() {
		all *= a.Size
	}
	var even []int
	for d, n := range shape {
		if n > 0 && n%all == 0 {
			even = append(even, d)
		}
	}
	order := slices.Clone(even)
	slices.SortStableFunc(order, func(d, e int) int {
		return cmp.Or(
			cmp.Compare(len(from.Dims[e]), len(from.Dims[d])), cmp.Compare(len(to.Dims[e]), len(to.Dims[d])),
			cmp.Compare(from.Dims[d].String(), from.Dims[e].String()),
			cmp.Compare(to.Dims[d].String(), to.Dims[e].String()))
	})
	a, b := slices.Clone(from.Dims), slices.Clone(to.Dims)
	for i, d := range even {
		from.Dims[d], to.Dims[d] = a[order[i]], b[order[i]]
	}
	return from, to
}
