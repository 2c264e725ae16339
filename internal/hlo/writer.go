package hlo

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/array"
)

// Target is the kind of device that a program is written for.
type Target string

// Any is an unknown device: plain StableHLO. CUDA also has cuDNN's fused attention.
const (
	Any  Target = ""
	CUDA Target = "cuda"
)

// Config describes the target of a program; the zero value means one device of any kind.
type Config struct {
	Target Target
	// Plain omits our own kernels that the target could run.
	Plain bool
	// Products is the least share of a device's SMs, from 0 to 1, that our own kernels for products with fused
	// epilogues must keep busy to be used; 0 means that there are none for the device.
	Products float64
	// Replicas is the number of devices that run the program; 0 means 1.
	Replicas int
	// Scores is the most attention scores that may be stored at once if no fused kernel avoids that; 0 means 64
	// million.
	Scores int
}

// Type is a tensor's type.
type Type struct {
	DType array.DType
	Shape array.Shape
}

var dtypeNames = map[array.DType]string{
	array.F64: "f64", array.F32: "f32", array.BF16: "bf16", array.F16: "f16",
	array.I64: "i64", array.I32: "i32", array.I16: "i16", array.U8: "ui8", array.Bool: "i1",
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

// Ref refers to a value that has been emitted.
type Ref struct {
	Type
	id string
}

// param is a parameter and its attributes about donation of its memory.
type param struct {
	Ref
	attrs string
}

// Writer collects the text of one function. The first error is kept.
type Writer struct {
	config Config
	body   *strings.Builder
	params []param
	next   int
	// depth is the nesting depth of regions.
	depth int
	// once holds the values that are emitted a single time in this region, by key.
	once map[string]Ref
	// products holds the names of results of Dot.
	products map[string]bool
	// bodies emits the programs inside of ops; nil emits them op by op.
	bodies func(program any, in []Ref) []Ref
	err    error
}

// NewWriter starts a function.
func NewWriter(c Config) *Writer {
	return &Writer{config: c, body: &strings.Builder{}, once: map[string]Ref{}, products: map[string]bool{}}
}

// Target returns the target of the program.
func (w *Writer) Target() Target { return w.config.Target }

// Kernels reports whether the program may contain our own kernels.
func (w *Writer) Kernels() bool { return w.config.Target == CUDA && !w.config.Plain }

// Products returns the least share of the device's SMs that product kernels must keep busy; 0 if none may be
// used.
func (w *Writer) Products() float64 {
	if !w.Kernels() {
		return 0
	}
	return w.config.Products
}

// SetBodies sets the function that emits programs inside of ops, such as the body of a loop: it gets refs for
// their parameters and returns those of their results.
func (w *Writer) SetBodies(write func(program any, in []Ref) []Ref) { w.bodies = write }

// Bodies returns the function given to SetBodies; nil emits bodies op by op.
func (w *Writer) Bodies() func(program any, in []Ref) []Ref { return w.bodies }

// Scores returns the most attention scores that may be stored at once.
func (w *Writer) Scores() int {
	if w.config.Scores > 0 {
		return w.config.Scores
	}
	return 1 << 26
}

// Err returns why the program cannot be emitted: an op without a lowering.
func (w *Writer) Err() error { return w.err }

// Unsupported records that an op has no lowering and returns placeholder refs for its results.
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
	w.params = append(w.params, param{Ref: r})
	return r
}

// Donate donates the memory of parameter i to result or, if that is negative, to any use.
func (w *Writer) Donate(i, result int) {
	w.params[i].attrs = " {jax.buffer_donor = true}"
	if result >= 0 {
		w.params[i].attrs = fmt.Sprintf(" {tf.aliasing_output = %d : i32}", result)
	}
}

// Op emits one op of the stablehlo dialect with one result. attrs is MLIR text: `dimensions = array<i64:
// 0>`.
func (w *Writer) Op(name, attrs string, out Type, in ...Ref) Ref {
	return w.OpN(name, attrs, nil, []Type{out}, in...)[0]
}

// OpN emits an op with any number of results and regions, made by Region.
func (w *Writer) OpN(name, attrs string, regions []string, out []Type, in ...Ref) []Ref {
	types := make([]string, len(out))
	for i, t := range out {
		types[i] = t.String()
	}
	ids := w.write(name, attrs, regions, types, in)
	refs := make([]Ref, len(out))
	for i, t := range out {
		refs[i] = Ref{Type: t, id: ids[i]}
	}
	return refs
}

// write emits a line, or several if there are regions, and returns the names of the results.
func (w *Writer) write(name, attrs string, regions, out []string, in []Ref) []string {
	w.indent()
	var ids []string
	if len(out) > 0 {
		ids = w.name(len(out))
		fmt.Fprintf(w.body, " = ")
	}
	operands, types := make([]string, len(in)), make([]string, len(in))
	for i, r := range in {
		operands[i], types[i] = r.id, r.Type.String()
	}
	fmt.Fprintf(w.body, "\"stablehlo.%s\"(%s)", name, strings.Join(operands, ", "))
	if len(regions) > 0 {
		fmt.Fprintf(w.body, " (%s)", strings.Join(regions, ", "))
	}
	if attrs != "" {
		fmt.Fprintf(w.body, " {%s}", attrs)
	}
	fmt.Fprintf(w.body, " : (%s) -> (%s)\n", strings.Join(types, ", "), strings.Join(out, ", "))
	return ids
}

// name emits the names of n new values and returns how each is referred to.
func (w *Writer) name(n int) []string {
	id := fmt.Sprintf("%%%d", w.next)
	w.next++
	w.body.WriteString(id)
	if n == 1 {
		return []string{id}
	}
	fmt.Fprintf(w.body, ":%d", n)
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s#%d", id, i)
	}
	return ids
}

func (w *Writer) indent() { w.body.WriteString(strings.Repeat("  ", w.depth+2)) }

// Once returns the result of f, which is called only for the first use of a key.
func (w *Writer) Once(key string, f func() Ref) Ref {
	if r, ok := w.once[key]; ok {
		return r
	}
	r := f()
	w.once[key] = r
	return r
}

// Module ends the function and prints the whole program.
func (w *Writer) Module(name string, results ...Ref) string {
	params, ids, types := make([]string, len(w.params)), make([]string, len(results)), make([]string,
		len(results))
	for i, p := range w.params {
		params[i] = fmt.Sprintf("%s: %s%s", p.id, p.Type, p.attrs)
	}
	for i, r := range results {
		ids[i], types[i] = r.id, r.Type.String()
	}
	return fmt.Sprintf("module @%s attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = %d : i32} {\n"+
		"  func.func public @main(%s) -> (%s) {\n%s    \"func.return\"(%s) : (%s) -> ()\n  }\n}\n",
		symbol(name), max(1, w.config.Replicas), strings.Join(params, ", "), strings.Join(types, ", "),
		w.body.String(), strings.Join(ids, ", "), strings.Join(types, ", "))
}

// symbol returns a name with only the characters that MLIR allows without quotes.
func symbol(name string) string {
	clean := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}
	if name = strings.Map(clean, name); name == "" || name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	return name
}
