package triton

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/array"
)

// Kernel is a kernel being written: one function, run by a grid of programs that each do a part of the work.
type Kernel struct {
	// Programs is the number of programs, Warps the number of warps of each.
	Programs, Warps int

	name   string
	params []string
	body   strings.Builder
	next   int
}

// Value is a value of a kernel: a number, a pointer, or a block of either.
type Value struct{ id, typ string }

// New starts a kernel.
func New(name string) *Kernel { return &Kernel{name: name, Programs: 1, Warps: 4} }

// Name returns the kernel's name.
func (k *Kernel) Name() string { return k.name }

// Text returns the kernel in Triton's IR, in one line.
func (k *Kernel) Text() string {
	return fmt.Sprintf("module { tt.func public @%s(%s) attributes {noinline = false} { %s tt.return } }",
		k.name, strings.Join(k.params, ", "), strings.TrimSpace(k.body.String()))
}

var typeNames = map[array.DType]string{array.F32: "f32", array.BF16: "bf16", array.F16: "f16",
	array.I32: "i32"}

// Supports reports whether kernels can load and store numbers of a dtype.
func Supports(d array.DType) bool { return typeNames[d] != "" }

// Pointer adds a parameter: a pointer to numbers of type d.
func (k *Kernel) Pointer(d array.DType) Value {
	v := Value{fmt.Sprintf("%%p%d", len(k.params)), "!tt.ptr<" + typeNames[d] + ">"}
	k.params = append(k.params, v.id+": "+v.typ+" {tt.divisibility = 16 : i32}")
	return v
}

// emit emits an op with one result of type typ. The format's verbs are the names of its operands.
func (k *Kernel) emit(typ, format string, args ...Value) Value {
	v := Value{fmt.Sprintf("%%v%d", k.next), typ}
	k.next++
	fmt.Fprintf(&k.body, "%s = %s ", v.id, fill(format, args))
	return v
}

// fill replaces a format's verbs by names.
func fill(format string, args []Value) string {
	names := make([]any, len(args))
	for i, a := range args {
		names[i] = a.id
	}
	return fmt.Sprintf(format, names...)
}

// Program returns the index of the running program.
func (k *Kernel) Program() Value { return k.emit("i32", "tt.get_program_id x : i32") }

// Int returns an i32 constant.
func (k *Kernel) Int(n int) Value { return k.emit("i32", fmt.Sprintf("arith.constant %d : i32", n)) }

// Float returns an f32 constant.
func (k *Kernel) Float(x float64) Value { return k.emit("f32", "arith.constant "+float(x)+" : f32") }

// float prints a number with all digits that f32 has.
func float(x float64) string {
	text := strconv.FormatFloat(x, 'e', 9, 64)
	if x == negativeInfinity {
		text = "0xFF800000"
	}
	return text
}

// Calc emits an op with operands and result of one type: addf, subf, mulf, divf, maxnumf of floats, addi,
// muli, divsi, remsi of integers.
func (k *Kernel) Calc(op string, x, y Value) Value {
	return k.emit(x.typ, "arith."+op+" %s, %s : "+x.typ, x, y)
}

// Math emits an elementwise function: exp, log, rsqrt.
func (k *Kernel) Math(op string, x Value) Value { return k.emit(x.typ, "math."+op+" %s : "+x.typ, x) }

// Offset returns the index i·width, with i of type i32.
func (k *Kernel) Offset(i Value, width int) Value {
	long := k.emit("i64", "arith.extsi %s : i32 to i64", i)
	return k.emit("i64", "arith.muli %s, %s : i64", long,
		k.emit("i64", fmt.Sprintf("arith.constant %d : i64", width)))
}

// At returns a pointer advanced by offset elements.
func (k *Kernel) At(p, offset Value) Value {
	return k.emit(p.typ, "tt.addptr %s, %s : "+p.typ+", "+offset.typ, p, offset)
}

// LoadOne loads the number at a pointer.
func (k *Kernel) LoadOne(p Value) Value {
	return k.emit(strings.TrimSuffix(strings.TrimPrefix(p.typ, "!tt.ptr<"), ">"), "tt.load %s : "+p.typ, p)
}

// StoreOne stores a number at a pointer.
func (k *Kernel) StoreOne(p, x Value) {
	k.body.WriteString(fill("tt.store %s, %s : "+p.typ+" ", []Value{p, x}))
}

// Sum returns the sum of a block.
func (k *Kernel) Sum(x Value) Value { return k.reduce("addf", x) }

// Max returns the maximum of a block.
func (k *Kernel) Max(x Value) Value { return k.reduce("maxnumf", x) }

func (k *Kernel) reduce(op string, x Value) Value {
	return k.emit("f32",
		`"tt.reduce"(%s) <{axis = 0 : i32}> ({ ^bb0(%%a: f32, %%b: f32): %%c = arith.`+op+` %%a, %%b : f32 tt.reduce.return %%c : f32 }) : (`+x.typ+") -> f32", x)
}

// For emits a loop of body with i from a number to another in steps, all of type i32; the values that body
// returns are carried to the next iteration.
func (k *Kernel) For(from, to, step Value, carried []Value,
	body func(i Value, carried []Value) []Value) []Value {
	id, i := fmt.Sprintf("%%v%d", k.next), Value{fmt.Sprintf("%%i%d", k.next), "i32"}
	k.next++
	inner, out := make([]Value, len(carried)), make([]Value, len(carried))
	var inits, types []string
	for n, c := range carried {
		inner[n] = Value{fmt.Sprintf("%s_%d", id, n), c.typ}
		out[n] = Value{fmt.Sprintf("%s#%d", id, n), c.typ}
		inits, types = append(inits, inner[n].id+" = "+c.id), append(types, c.typ)
	}
	head := fmt.Sprintf("scf.for %s = %s to %s step %s", i.id, from.id, to.id, step.id)
	if len(carried) == 0 {
		k.body.WriteString(head + " : i32 { ")
		body(i, nil)
		k.body.WriteString("} ")
		return nil
	}
	fmt.Fprintf(&k.body, "%s:%d = %s iter_args(%s) -> (%s) : i32 { ", id, len(carried), head,
		strings.Join(inits, ", "), strings.Join(types, ", "))
	var last []string
	for _, v := range body(i, inner) {
		last = append(last, v.id)
	}
	fmt.Fprintf(&k.body, "scf.yield %s : %s } ", strings.Join(last, ", "), strings.Join(types, ", "))
	return out
}
