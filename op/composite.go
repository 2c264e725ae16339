package op

import (
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
)

// decomposed traces a composite's definition on operands of the given types.
func decomposed(o Composite, in []Type) *ir.Func {
	b := ir.NewBuilder(o.Name())
	args := make([]*Tensor, len(in))
	for i, t := range in {
		args[i] = b.Param("", t)
	}
	f, err := b.Build(o.Decompose(args)...)
	if err != nil {
		panic("op: decomposition of " + o.Name() + ": " + err.Error())
	}
	return f
}

// emitByParts writes a composite as its definition, computed in float32 if operands are 16-bit floats and
// rounded once at the end, as Run does.
func emitByParts(o Composite, w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	args := make([]hlo.Ref, len(in))
	for i, r := range in {
		args[i] = w.Convert(r, r.DType.Compute())
	}
	return narrowTo(w, emitAsIs(o, w, args), out)
}

// emitAsIs writes a composite as its definition in its operands' own dtypes.
func emitAsIs(o Composite, w *hlo.Writer, in []hlo.Ref) []hlo.Ref {
	types := make([]Type, len(in))
	for i, r := range in {
		types[i] = Type{DType: r.DType, Shape: r.Shape}
	}
	return EmitFunc(w, decomposed(o, types), in)
}

// narrowTo casts results to the dtypes that they should have.
func narrowTo(w *hlo.Writer, refs []hlo.Ref, out []Type) []hlo.Ref {
	for i, t := range out {
		refs[i] = w.Convert(refs[i], t.DType)
	}
	return refs
}

// emitBody writes a program that an op runs in a loop, including the kernels that fuse several of its nodes.
func emitBody(w *hlo.Writer, f *ir.Func, in []hlo.Ref) []hlo.Ref {
	if write := w.Bodies(); write != nil {
		return write(f, in)
	}
	return EmitFunc(w, f, in)
}

// EmitFunc writes a program with the given refs as parameters and returns the refs of its results.
func EmitFunc(w *hlo.Writer, f *ir.Func, in []hlo.Ref) []hlo.Ref {
	refs := make([]hlo.Ref, f.NumValues())
	get := func(vs []*Tensor) []hlo.Ref {
		out := make([]hlo.Ref, len(vs))
		for i, v := range vs {
			out[i] = refs[v.ID()]
		}
		return out
	}
	for i, p := range f.Params() {
		refs[p.ID()] = in[i]
	}
	for _, n := range f.Nodes() {
		for i, r := range n.Op().(Op).Emit(w, get(n.In()), typesOfValues(n.Out())) {
			refs[n.Out()[i].ID()] = r
		}
	}
	return get(f.Results())
}
