package ir

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
)

// Type is the dtype and shape of a value.
type Type struct {
	DType array.DType
	Shape array.Shape
}

// Bytes returns the size of a value of this type.
func (t Type) Bytes() int { return t.Shape.Len() * t.DType.Size() }

// Equal reports whether t and u are the same type.
func (t Type) Equal(u Type) bool { return t.DType == u.DType && t.Shape.Equal(u.Shape) }

// String prints the type as programs do: f32[64,512].
func (t Type) String() string { return t.DType.String() + t.Shape.String() }

// check returns an error if no value of this type can exist.
func (t Type) check() error {
	if !t.DType.IsValid() {
		return fmt.Errorf("%v: no such dtype", t)
	}
	if !t.Shape.Valid() {
		return fmt.Errorf("%v: want dims that are not negative and a product that fits", t)
	}
	return nil
}

// TypeOf returns the type of a host array.
func TypeOf(a array.Array) Type { return Type{DType: a.DType(), Shape: a.Shape()} }

// typeList prints types separated by commas.
func typeList(ts []Type) string {
	words := make([]string, len(ts))
	for i, t := range ts {
		words[i] = t.String()
	}
	return strings.Join(words, ", ")
}

// Op is the part of an operation that programs need. Its fields are its attributes: exported, and of types
// that print and parse (int, float64, bool, string, slices of them, and encoding.TextMarshalers).
type Op interface {
	Name() string
	// Infer checks the operands and returns the types of the results.
	Infer(in []Type) ([]Type, error)
}

// Infer calls op's Infer and checks what holds for every op: a result whose size overflows is an error. Every
// scope calls it, so that no op runs on memory that is smaller than its type.
func Infer(op Op, in []Type) ([]Type, error) {
	out, err := op.Infer(in)
	if err != nil {
		return nil, err
	}
	for i, t := range out {
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("result %d of %s is %w", i, typeList(in), err)
		}
	}
	return out, nil
}

// Error is a user's mistake with its source position.
type Error struct {
	Pos Pos
	Op  string
	Err error
}

func (e *Error) Error() string {
	if e.Pos == "" {
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", e.Pos, e.Op, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
