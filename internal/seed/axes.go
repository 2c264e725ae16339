package seed

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// newLabeler lists the axes that ops may be split by: those of more than one position, cut where annotations
// cut them.
func newLabeler(f *ir.Func, c Config) (*labeler, error) {
	l := &labeler{mesh: c.Mesh, prices: c.Prices}
	cuts := map[string][]int{}
	note := func(s mesh.Sharding) {
		for _, x := range append(s.Spec.Used(), s.Replicated...) {
			if x.Size != 0 {
				cuts[x.Axis] = append(cuts[x.Axis], x.Pre, x.Pre*x.Size)
			}
		}
	}
	for _, v := range f.Params() {
		if s, ok := c.Given[v.ID()]; ok {
			note(s)
		}
	}
	for _, n := range f.Nodes() {
		s, ok, err := constraintOn(c.Mesh, n)
		if err != nil {
			return nil, err
		}
		if ok {
			note(s)
		}
	}
	for _, a := range c.Mesh.Axes() {
		l.axes = append(l.axes, partsOf(a, cuts[a.Name])...)
	}
	return l, nil
}

// partsOf returns an axis, cut at places; where they do not go together it is whole.
func partsOf(a mesh.Axis, at []int) mesh.Axes {
	if a.Size == 1 {
		return nil
	}
	at = append(at, 1, a.Size)
	slices.Sort(at)
	at = slices.Compact(at)
	var parts mesh.Axes
	for i := 1; i < len(at); i++ {
		if at[i]%at[i-1] != 0 {
			return mesh.Axes{{Axis: a.Name}}
		}
		parts = append(parts, mesh.Sub{Axis: a.Name, Pre: at[i-1], Size: at[i] / at[i-1]})
	}
	if len(parts) == 1 {
		return mesh.Axes{{Axis: a.Name}}
	}
	return parts
}
