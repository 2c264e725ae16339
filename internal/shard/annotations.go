package shard

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Annotations collects the annotations of a program: it turns those of parameters, marks and sequence
// parallelism into annotations of values.
type Annotations struct {
	// Params is by parameter; the zero value, and a missing one, request nothing.
	Params []mesh.Sharding
	// Marks returns the requested layout of a marked value; nil requests nothing.
	Marks func(label string) (mesh.Sharding, bool)
	// SequenceParallel is the layout of sequences within a layer, Uses that of the first parameters, the
	// weights, there.
	SequenceParallel SequenceParallel
	Uses             []mesh.Spec
}

// Values returns the annotations by value. Those of marks take precedence over sequence parallelism.
func (a Annotations) Values(f *ir.Func) map[int]mesh.Sharding {
	asked := map[int]mesh.Sharding{}
	a.SequenceParallel.Ask(f, a.Uses, asked)
	for i, s := range a.Params {
		if s.Spec.Dims != nil {
			asked[f.Params()[i].ID()] = s
		}
	}
	if a.Marks == nil {
		return asked
	}
	for _, n := range f.Nodes() {
		label, ok := op.Marked(n)
		if !ok {
			continue
		}
		out := n.Out()[0]
		if s, ok := a.Marks(label); ok && len(s.Spec.Dims) == len(out.Shape()) {
			asked[out.ID()] = s
		}
	}
	return asked
}
