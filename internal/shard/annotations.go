package shard

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Annotations is what is asked of the values of a program: the one place where parameters, marks and sequence
// parallelism become annotations of values.
type Annotations struct {
	// Params is by parameter; the zero value, and one that is missing, asks for nothing.
	Params []mesh.Sharding
	// Marks is how a marked value should be laid out; nil asks for nothing.
	Marks func(label string) (mesh.Sharding, bool)
	// SequenceParallel is the layout of sequences within a layer, Uses that of the first parameters, the
	// weights, there.
	SequenceParallel SequenceParallel
	Uses             []mesh.Spec
}

// Values returns the annotations by value. What a mark asks for comes before what sequence parallelism does.
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
