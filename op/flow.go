package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
)

// flow is implemented by the ops that run programs: cond, scan, while.
type flow interface {
	Bodied
	// texts returns the programs, bodyTypes the operand types of each for operands of the op of types in.
	texts() []string
	bodyTypes(in []Type) [][]Type
	// localized returns the op as one device runs it.
	localized(at *Place) (Op, error)
	// ties reports which dims of operands and results correspond to dims of the programs' parameters and
	// results.
	ties(t *flowTies)
	// states returns the state of each result along a class of dims that is split; false if it cannot be split.
	states(c *flowClass) ([]flowState, bool)
}

// bodiesOf returns the programs of an op for operands of these types.
func bodiesOf(o flow, in []Type) ([]*ir.Func, error) {
	var fs []*ir.Func
	for i, types := range o.bodyTypes(in) {
		b, err := bodyOf(o.texts()[i], types)
		if err != nil {
			return nil, err
		}
		fs = append(fs, b.f)
	}
	return fs, nil
}

// Scratcher is implemented by ops that need temporary memory. Scratch returns the number of bytes.
type Scratcher interface {
	Scratch(in, out []Type) int
}

// borrow returns n bytes of the memory that was lent to env, or new ones. The rest of the lent memory is
// available to ops that run until restore is called.
func (env *Env) borrow(n int) (memory []byte, restore func()) {
	lent := env.Scratch
	restore = func() { env.Scratch = lent }
	n = alignedBytes(n)
	if len(lent) < n {
		env.Scratch = nil
		return array.New(array.U8, n).Bytes(), restore
	}
	env.Scratch = lent[n:]
	return lent[:n], restore
}

// alignedBytes rounds a size up, so that what follows it is aligned.
func alignedBytes(n int) int { return (n + 63) &^ 63 }

// carve makes arrays like those of a list from memory, and returns the unused rest.
func carve(memory []byte, list []array.Array) (arrays []array.Array, rest []byte) {
	for _, a := range list {
		n := len(a.Bytes())
		arrays = append(arrays, array.View(a.DType(), a.Shape(), memory[:n]))
		memory = memory[alignedBytes(n):]
	}
	return arrays, memory
}

// carriedBytes returns the memory of the carried values before and after a trip.
func carriedBytes(carry []Type) int {
	n := 0
	for _, t := range carry {
		n += 2 * alignedBytes(t.Bytes())
	}
	return n
}

// scratchOf returns the memory of the op's largest program plus that of the ops within the programs.
func scratchOf(o flow, in []Type) int {
	most, within := 0, 0
	for i, types := range o.bodyTypes(in) {
		b, err := bodyOf(o.texts()[i], types)
		if err != nil {
			return 0
		}
		inner := 0
		for _, n := range b.f.Nodes() {
			if s, ok := n.Op().(Scratcher); ok {
				inner = max(inner, alignedBytes(s.Scratch(typesOfValues(n.In()), typesOfValues(n.Out()))))
			}
		}
		most, within = max(most, b.bytes), max(within, inner)
	}
	return most + within
}

// mustBody returns a program for operands that Infer has accepted.
func mustBody(text string, in []array.Array) *body { return mustBodyOf(text, typesOfArrays(in)) }

func typesOfArrays(list []array.Array) []Type {
	types := make([]Type, len(list))
	for i, a := range list {
		types[i] = ir.TypeOf(a)
	}
	return types
}

func mustBodyOf(text string, types []Type) *body {
	b, err := bodyOf(text, types)
	if err != nil {
		panic("op: a body that does not read: " + err.Error())
	}
	return b
}

func typesOfRefs(refs []hlo.Ref) []Type {
	types := make([]Type, len(refs))
	for i, r := range refs {
		types[i] = Type{DType: r.DType, Shape: r.Shape}
	}
	return types
}

// wantBelow checks that the indices in an attribute are below n.
func wantBelow(what string, list []int, n int) error {
	for _, i := range list {
		if i < 0 || i >= n {
			return fmt.Errorf("%s %d: there are %d", what, i, n)
		}
	}
	return nil
}

// zeroAll clears the arrays of a list with the given indices.
func zeroAll(list []array.Array, which []int) {
	for _, i := range which {
		clear(list[i].Bytes())
	}
}

// emitZero replaces the values of a list with the given indices by zeros.
func emitZero(w *hlo.Writer, refs []hlo.Ref, which []int) []hlo.Ref {
	for _, i := range which {
		refs[i] = w.Constant(refs[i].Type, 0)
	}
	return refs
}

// together applies the local op of a place, when devices compute an op jointly.
func together(o flow, at *Place, in []*Tensor) []*Tensor {
	local, err := o.localized(at)
	if err != nil {
		return invalidated(in, len(at.Out), err)
	}
	return ir.Apply(local, in...)
}
