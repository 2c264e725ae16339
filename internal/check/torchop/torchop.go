// Package torchop implements PyTorch's ops, by their names and attributes, with Galley's, to run recorded
// cases of them. Every attribute has PyTorch's default, and an unknown one is an error, since it could change
// the function.
package torchop

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/op"
)

// Func is a function of a case's operands, and the number of them.
type Func struct {
	Least, Most int
	Of          func(in []*op.Tensor) []*op.Tensor
}

// Operands prints the number of operands.
func (f Func) Operands() string {
	switch f.Most {
	case f.Least:
		return fmt.Sprint(f.Least)
	case math.MaxInt:
		return fmt.Sprintf("%d or more", f.Least)
	}
	return fmt.Sprintf("%d to %d", f.Least, f.Most)
}

// builder makes a function from its attributes.
type builder func(a *attrs) Func

// New returns the function that a recorded case names.
func New(name string, text json.RawMessage) (Func, error) {
	build, ok := table()[name]
	if !ok {
		return Func{}, fmt.Errorf("op %s: no such op: the nearest is %s", name, strict.Nearest(name, Names()))
	}
	a, err := newAttrs(text)
	if err != nil {
		return Func{}, fmt.Errorf("op %s: attributes %s: %w", name, text, err)
	}
	f := build(a)
	if err := a.left(); err != nil {
		return Func{}, fmt.Errorf("op %s: attributes %s: %w", name, text, err)
	}
	f.Of = refusing(name, f.Of)
	return f, nil
}

// refusing wraps f to return an error if attributes name dims that its operands do not have.
func refusing(name string, f func(in []*op.Tensor) []*op.Tensor) func(in []*op.Tensor) []*op.Tensor {
	return func(in []*op.Tensor) (out []*op.Tensor) {
		defer func() {
			if r := recover(); r != nil {
				out = one(ir.Invalid(in[0].Scope(), &ir.Error{Op: name,
					Err: fmt.Errorf("the attributes do not fit the operands: %v", r)}))
			}
		}()
		return f(in)
	}
}

// at returns a dim counted from the first; refusing reports one that does not exist.
func at(dim, rank int) int {
	if dim < -rank || dim >= rank {
		panic(fmt.Sprintf("dim %d of %d", dim, rank))
	}
	return (dim + rank) % rank
}

// Names lists all ops.
func Names() []string { return slices.Sorted(maps.Keys(table())) }

func table() map[string]builder {
	all := map[string]builder{}
	for _, part := range []map[string]builder{elements(), activations(), reductions(), shapes(), indices(),
		products(), windows(), norms(), attentions(), losses()} {
		maps.Copy(all, part)
	}
	return all
}

func one(x *op.Tensor) []*op.Tensor { return []*op.Tensor{x} }

func lift1(f func(x *op.Tensor) *op.Tensor) Func {
	return Func{1, 1, func(in []*op.Tensor) []*op.Tensor { return one(f(in[0])) }}
}

func lift2(f func(x, y *op.Tensor) *op.Tensor) Func {
	return Func{2, 2, func(in []*op.Tensor) []*op.Tensor { return one(f(in[0], in[1])) }}
}

func lift3(f func(x, y, z *op.Tensor) *op.Tensor) Func {
	return Func{3, 3, func(in []*op.Tensor) []*op.Tensor { return one(f(in[0], in[1], in[2])) }}
}

func liftAll(f func(in []*op.Tensor) *op.Tensor) Func {
	return Func{1, math.MaxInt, func(in []*op.Tensor) []*op.Tensor { return one(f(in)) }}
}

// liftSome returns a function of between least and most operands; omitted ones are nil.
func liftSome(least, most int, f func(in []*op.Tensor) *op.Tensor) Func {
	return Func{least, most, func(in []*op.Tensor) []*op.Tensor {
		return one(f(append(slices.Clone(in), make([]*op.Tensor, most-len(in))...)))
	}}
}

// both returns a function with two results: values and indices.
func both(f func(x *op.Tensor) (values, indices *op.Tensor)) Func {
	return Func{1, 1, func(in []*op.Tensor) []*op.Tensor {
		values, indices := f(in[0])
		return []*op.Tensor{values, indices}
	}}
}

// unary and binary are builders of functions without attributes.
func unary(table map[string]builder, fs map[string]func(x *op.Tensor) *op.Tensor) {
	for name, f := range fs {
		table[name] = func(*attrs) Func { return lift1(f) }
	}
}

func binary(table map[string]builder, fs map[string]func(x, y *op.Tensor) *op.Tensor) {
	for name, f := range fs {
		table[name] = func(*attrs) Func { return lift2(f) }
	}
}

// alias gives builders further names, as pairs of a new name and an old one.
func alias(table map[string]builder, names ...string) {
	for i := 0; i+1 < len(names); i += 2 {
		table[names[i]] = table[names[i+1]]
	}
}
