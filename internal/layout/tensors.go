package layout

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/mesh"
)

// Asked returns every sharding that is requested for a program's parameters on a mesh, by value: the layouts
// of captured eager tensors, then annotations by name, of which the first that matches a parameter counts,
// then params by number. An annotation that matches none is an error.
func Asked(p *ir.Func, m *mesh.Mesh, list []mesh.Annotation,
	params map[int]mesh.Sharding) (map[int]mesh.Sharding,
	error) {
	asked := captured(p, m)
	for _, v := range p.Params() {
		if k := slices.IndexFunc(list, func(a mesh.Annotation) bool { return a.Matches(v.Name()) }); k >= 0 {
			asked[v.ID()] = list[k].Sharding
		}
	}
	for _, a := range list {
		if !MatchesAny(a, p) {
			return nil, fmt.Errorf("annotation %s matches no parameter: they are called %s", a, someNames(p))
		}
	}
	for _, i := range slices.Sorted(maps.Keys(params)) {
		if i < 0 || i >= len(p.Params()) {
			return nil, fmt.Errorf("sharding of parameter %d: it has %d", i, len(p.Params()))
		}
		asked[p.Params()[i].ID()] = params[i]
	}
	return asked, nil
}

// captured returns the layouts of the eager tensors that the trace captured: they keep them.
func captured(p *ir.Func, m *mesh.Mesh) map[int]mesh.Sharding {
	asked := map[int]mesh.Sharding{}
	own := len(p.Params()) - len(p.Captures())
	for i, x := range p.Captures() {
		if s, ok := runtime.ShardsOf(x); ok && s.Mesh.Equal(m) && len(s.Spec.Partial) == 0 {
			asked[p.Params()[own+i].ID()] = mesh.Closed(s.Spec)
		}
	}
	return asked
}

// someNames returns the first of a program's parameters, for messages.
func someNames(p *ir.Func) string {
	var names []string
	for _, v := range p.Params() {
		if len(names) == 4 {
			return strings.Join(names, ", ") + ", …"
		}
		names = append(names, v.Name())
	}
	return strings.Join(names, ", ")
}
