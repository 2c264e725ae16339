package step

import (
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
)

// list adds a part to the plan's parts, once.
func (b *builder) list(x *section, variant int, k partKey) {
	p := x.parts[k]
	if b.parts[p] {
		return
	}
	b.parts[p] = true
	out := partOf(p.program)
	out.Stage, out.Variant, out.Kind, out.First = x.number, variant, k.kind, k.turn == first
	b.plan.Parts = append(b.plan.Parts, out)
}

// updatePart returns the program of the update as a Part.
func (b *builder) updatePart() *Part {
	out := partOf(b.updateProgram)
	out.Stage, out.Kind = -1, pipeline.Forward
	return out
}

func partOf(p *spmd.Program) *Part {
	f := p.Global()
	out := &Part{Func: f, Meshes: make([]*mesh.Mesh, f.NumValues()), Specs: make([]mesh.Spec, f.NumValues()),
		Communications: p.Communications()}
	for id := range out.Specs {
		at := p.Value(id)
		out.Meshes[id], out.Specs[id] = at.Mesh, at.Spec
	}
	for i := range f.Results() {
		out.ResultSpecs = append(out.ResultSpecs, p.ResultSpec(i))
	}
	return out
}

// order returns a sort key of a part in a plan: by stage, then kind, then size of micro-batch.
func (x *Part) order() int {
	n := ((x.Stage*int(pipeline.Weight+1)+int(x.Kind))*2 + 1) << 20
	if x.First {
		n -= 1 << 20
	}
	return n + x.Variant
}
