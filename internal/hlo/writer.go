package hlo

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/array"
)

// Type is a tensor's type.
type Type struct {
	DType array.DType
	Shape array.Shape
}

var dtypeNames = map[array.DType]string{
	array.F64: "f64", array.F32: "f32", array.BF16: "bf16", array.F16: "f16",
	array.I64: "i64", array.I32: "i32", array.U8: "ui8", array.Bool: "i1",
}

// String prints the type as MLIR does: tensor<2x3xf32>.
func (t Type) String() string {
	var b strings.Builder
	b.WriteString("tensor<")
	for _, d := range t.Shape {
		b.WriteString(strconv.Itoa(d))
		b.WriteByte('x')
	}
	b.WriteString(dtypeNames[t.DType])
	b.WriteByte('>')
	return b.String()
}

// Ref names a value that has been written.
type Ref struct {
	Type
	id string
}

// Writer collects the text of one function. The first error sticks.
type Writer struct {
	body   strings.Builder
	params []Ref
	next   int
	// channels counts the collectives.
	channels int
	err      error
}

// NewWriter starts a function.
func NewWriter() *Writer { return &Writer{} }

// Err is why the program cannot be written: an op that has no lowering.
func (w *Writer) Err() error { return w.err }

// Unsupported records that an op has no lowering and gives refs that stand for its results.
func (w *Writer) Unsupported(op string, out ...Type) []Ref {
	if w.err == nil {
		w.err = fmt.Errorf("op %s: no StableHLO lowering", op)
	}
	refs := make([]Ref, len(out))
	for i, t := range out {
		refs[i] = Ref{Type: t, id: "%invalid"}
	}
	return refs
}

// Param adds a parameter.
func (w *Writer) Param(t Type) Ref {
	r := Ref{Type: t, id: fmt.Sprintf("%%arg%d", len(w.params))}
	w.params = append(w.params, r)
	return r
}

// Op writes one op of the stablehlo dialect with one result. attrs is MLIR text: `dimensions = array<i64: 0>`.
func (w *Writer) Op(name, attrs string, out Type, in ...Ref) Ref {
	return w.OpN(name, attrs, "", []Type{out}, in...)[0]
}

// OpN writes an op with any number of results and, where it is not empty, a region's text.
func (w *Writer) OpN(name, attrs, region string, out []Type, in ...Ref) []Ref {
	id := fmt.Sprintf("%%%d", w.next)
	w.next++
	refs := make([]Ref, len(out))
	ids, results := id, make([]string, len(out))
	for i, t := range out {
		refs[i] = Ref{Type: t, id: id}
		results[i] = t.String()
		if len(out) > 1 {
			refs[i].id = fmt.Sprintf("%s#%d", id, i)
		}
	}
	if len(out) > 1 {
		ids = fmt.Sprintf("%s:%d", id, len(out))
	}
	operands, types := make([]string, len(in)), make([]string, len(in))
	for i, r := range in {
		operands[i], types[i] = r.id, r.Type.String()
	}
	fmt.Fprintf(&w.body, "    %s = \"stablehlo.%s\"(%s)", ids, name, strings.Join(operands, ", "))
	if region != "" {
		fmt.Fprintf(&w.body, " ({\n%s    })", region)
	}
	if attrs != "" {
		fmt.Fprintf(&w.body, " {%s}", attrs)
	}
	fmt.Fprintf(&w.body, " : (%s) -> (%s)\n", strings.Join(types, ", "), strings.Join(results, ", "))
	return refs
}

// Constant writes one number, repeated over the whole of t.
func (w *Writer) Constant(t Type, x float64) Ref {
	return w.Op("constant", fmt.Sprintf("value = dense<%s> : %s", literal(t.DType, x), t), t)
}

func literal(d array.DType, x float64) string {
	switch {
	case d == array.Bool:
		return strconv.FormatBool(x != 0)
	case d.IsInt():
		return strconv.FormatInt(int64(x), 10)
	case d == array.F64 && (math.IsInf(x, 0) || x != x):
		return fmt.Sprintf("0x%016X", math.Float64bits(x))
	case d == array.F32 && (math.IsInf(x, 0) || x != x):
		return fmt.Sprintf("0x%08X", math.Float32bits(float32(x)))
	case d == array.BF16 && (math.IsInf(x, 0) || x != x):
		return fmt.Sprintf("0x%04X", uint16(array.ToBFloat16(float32(x))))
	case d == array.F16 && (math.IsInf(x, 0) || x != x):
		return fmt.Sprintf("0x%04X", uint16(array.ToFloat16(float32(x))))
	}
	return strconv.FormatFloat(x, 'e', -1, 64)
}

// Broadcast repeats x to shape: dim i of x becomes dim dims[i] of the result.
func (w *Writer) Broadcast(x Ref, shape array.Shape, dims []int) Ref {
	return w.Op("broadcast_in_dim", "broadcast_dimensions = "+Ints(dims), Type{x.DType, shape}, x)
}

// Reduce folds x along dims with a binary op of the dialect (add, maximum …), starting from init.
func (w *Writer) Reduce(binary string, x Ref, init float64, dims []int, out Type) Ref {
	scalar := Type{DType: x.DType}
	start := w.Constant(scalar, init)
	region := fmt.Sprintf("    ^bb0(%%a: %s, %%b: %s):\n      %%r = \"stablehlo.%s\"(%%a, %%b) : (%s, %s) -> %s\n"+
		"      \"stablehlo.return\"(%%r) : (%s) -> ()\n", scalar, scalar, binary, scalar, scalar, scalar, scalar)
	return w.OpN("reduce", "dimensions = "+Ints(dims), region, []Type{out}, x, start)[0]
}

// Ints is an MLIR array attribute.
func Ints(xs []int) string {
	if len(xs) == 0 {
		return "array<i64>"
	}
	words := make([]string, len(xs))
	for i, x := range xs {
		words[i] = strconv.Itoa(x)
	}
	return "array<i64: " + strings.Join(words, ", ") + ">"
}

// Module closes the function and prints the whole program.
func (w *Writer) Module(name string, results ...Ref) string {
	params, ids, types := make([]string, len(w.params)), make([]string, len(results)), make([]string, len(results))
	for i, p := range w.params {
		params[i] = fmt.Sprintf("%s: %s", p.id, p.Type)
	}
	for i, r := range results {
		ids[i], types[i] = r.id, r.Type.String()
	}
	return fmt.Sprintf("module @%s {\n  func.func public @main(%s) -> (%s) {\n%s    \"func.return\"(%s) : (%s) -> ()\n  }\n}\n",
		name, strings.Join(params, ", "), strings.Join(types, ", "), w.body.String(),
		strings.Join(ids, ", "), strings.Join(types, ", "))
}

// Dot writes a general product: batch dims pair up, contracting dims are summed over.
func (w *Writer) Dot(x, y Ref, batchX, batchY, sumX, sumY []int, out Type) Ref {
	attrs := fmt.Sprintf("dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = %s, rhs_batching_dimensions = %s, "+
		"lhs_contracting_dimensions = %s, rhs_contracting_dimensions = %s>", list(batchX), list(batchY), list(sumX), list(sumY))
	return w.Op("dot_general", attrs, out, x, y)
}

func list(xs []int) string {
	words := make([]string, len(xs))
	for i, x := range xs {
		words[i] = strconv.Itoa(x)
	}
	return "[" + strings.Join(words, ", ") + "]"
}
