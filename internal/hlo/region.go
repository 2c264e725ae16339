package hlo

import (
	"strings"

	"github.com/galley-ml/galley/array"
)

// Region emits a block that has parameters of these types and returns body's results. The text is passed to
// OpN. It must not use values from outside, since XLA's computations are closed, except in a branch, which
// has no parameters.
func (w *Writer) Region(args []Type, body func(in []Ref) []Ref) string {
	outer, once := w.body, w.once
	w.body, w.once = &strings.Builder{}, map[string]Ref{}
	w.body.WriteString("{\n")
	refs := w.label(args)
	w.depth++
	w.write("return", "", nil, nil, body(refs))
	w.depth--
	w.indent()
	w.body.WriteString("}")
	text := w.body.String()
	w.body, w.once = outer, once
	return text
}

// label emits a block's parameters, if it has any.
func (w *Writer) label(args []Type) []Ref {
	if len(args) == 0 {
		return nil
	}
	w.indent()
	w.body.WriteString("^bb0(")
	refs := make([]Ref, len(args))
	for i, t := range args {
		if i > 0 {
			w.body.WriteString(", ")
		}
		refs[i] = Ref{Type: t, id: w.name(1)[0]}
		w.body.WriteString(": " + t.String())
	}
	w.body.WriteString("):\n")
	return refs
}

// Binary returns the region of a binary op on scalars.
func (w *Writer) Binary(name string, d array.DType) string {
	t := Type{DType: d}
	return w.Region([]Type{t, t}, func(in []Ref) []Ref { return []Ref{w.Op(name, "", t, in...)} })
}

// Reduce reduces x along dims with a binary op of the dialect (add, maximum …), starting from init.
func (w *Writer) Reduce(binary string, x Ref, init float64, dims []int, out Type) Ref {
	start := w.Constant(Type{DType: x.DType}, init)
	region := w.Binary(binary, x.DType)
	return w.OpN("reduce", "dimensions = "+Ints(dims), []string{region}, []Type{out}, x, start)[0]
}

// While repeats body on state as long as its first element, an i32 that body must increase by one, is below
// n: a loop of known length, which XLA runs without involving the host.
func (w *Writer) While(n int, state []Ref, body func(in []Ref) []Ref) []Ref {
	types := make([]Type, len(state))
	for i, r := range state {
		types[i] = r.Type
	}
	going := w.Region(types, func(in []Ref) []Ref {
		return []Ref{w.Compare("LT", in[0], w.Constant(in[0].Type, float64(n)))}
	})
	step := w.Region(types, func(in []Ref) []Ref {
		next := w.Op("add", "", in[0].Type, in[0], w.Constant(in[0].Type, 1))
		return append([]Ref{next}, body(in)...)
	})
	return w.OpN("while", "", []string{going, step}, types, state...)
}

// Compare compares elements: EQ, NE, LT, LE, GT or GE.
func (w *Writer) Compare(direction string, x, y Ref) Ref {
	return w.Op("compare", "comparison_direction = #stablehlo<comparison_direction "+direction+">",
		Type{array.Bool, x.Shape}, x, y)
}
