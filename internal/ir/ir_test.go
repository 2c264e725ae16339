package ir_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

func f32(shape ...int) ir.Type { return ir.Type{DType: array.F32, Shape: shape} }

func TestErrorHasPlace(t *testing.T) {
	b := ir.NewBuilder("main")
	x, y := b.Param("x", f32(4, 6)), b.Param("y", f32(5, 8))
	z := op.MatMul(x, y)
	z = op.Exp(op.Add(z, op.Reshape(op.Sum(z, 0), 7, -1))) // inert: no panic, no other error
	_, err := b.Build(z)
	want := "ir_test.go:21: matmul: cannot contract [4,6] with [5,8]: sizes 6 and 5"
	if err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	if _, ok := errors.AsType[*ir.Error](err); !ok {
		t.Errorf("error is a %T", err)
	}
}

func TestOtherTraceIsRefused(t *testing.T) {
	a, b := ir.NewBuilder("a"), ir.NewBuilder("b")
	x, y := a.Param("x", f32(2)), b.Param("y", f32(2))
	if _, err := a.Build(op.Add(x, y)); err == nil || !strings.Contains(err.Error(), "another trace") {
		t.Errorf("got %v", err)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "no closing brace",
		"func main() {\n":      "no closing brace",
		"fun main() {":         "want func",
		"func f(%0: f33[2]) {": `unknown name "f33"`,
		"func f(%0: f32[2]) {\n%1 = exp %7 : f32[2]\nreturn %1\n}": "line 2: %7 is used before " +
			"it is made",
		"func f(%0: f32[2]) {\n%1 = explode %0\nreturn %1\n}":                      `no op is called "explode"`,
		"func f(%0: f32[2]) {\n%1 = exp %0 : f32[3]\nreturn %1\n}":                 "exp makes f32[2], not f32[3]",
		"func f(%0: f32[2]) {\n%0 = exp %0\nreturn %0\n}":                          "defined twice",
		"func f(%0: f32[2]) {\n%1 = sum{dims=[0 %0\nreturn %1\n}":                  "attribute dims",
		"func f(%0: f32[2]) {\n%1 = sum{depth=3} %0\nreturn %1\n}":                 `no attribute "depth"`,
		"func f(%0: f32[2]) {\n%1 = matmul %0 %0\nreturn %1\n}":                    "want matrices",
		"func f(%0: f32[99999999999,99999999999]) {\nreturn %0\n}":                 "too large",
		"func f(%0: f32[2]) {\nreturn %0\n}\nfunc g() {":                           "after the closing brace",
		"func f(%0: f32[2]) {\n%1, %2 = exp %0\nreturn %1\n}":                      "1 results: got 2 names",
		"func f(%0: f32[2]) {\n%1 = full{dtype=f32 shape=[-4] value=1}\nreturn\n}": "not valid",
	} {
		_, err := ir.Parse(text, op.Lookup)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// randomProgram draws a program of unary and binary ops over a few shapes.
func randomProgram(t *rapid.T) *ir.Func {
	b := ir.NewBuilder("random")
	shape := array.Shape(rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(t, "shape"))
	values := []*ir.Value{b.Param("x", ir.Type{DType: array.F32, Shape: shape}),
		b.Param("", ir.Type{DType: array.F32, Shape: shape})}
	one := func(name string) *ir.Value { return rapid.SampledFrom(values).Draw(t, name) }
	for range rapid.IntRange(0, 12).Draw(t, "nodes") {
		var v *ir.Value
		switch rapid.IntRange(0, 5).Draw(t, "op") {
		case 0:
			v = op.Exp(one("x"))
		case 1:
			v = op.Add(one("x"), one("y"))
		case 2:
			v = op.Mul(one("x"), one("y"))
		case 3:
			v = op.Reshape(op.Reshape(one("x"), -1, 1), shape...)
			if shape.Len() == 0 {
				v = op.Identity(one("x"))
			}
		case 4:
			v = op.Expand(op.Sum(one("x")), shape...)
		case 5:
			v = op.Full(b, array.F32, shape, rapid.Float64().Draw(t, "value"))
		}
		values = append(values, v)
	}
	f, err := b.Build(one("result"), one("result"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestParseOfPrint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := randomProgram(t)
		if err := ir.Check(f); err != nil {
			t.Fatal(err)
		}
		g, err := ir.Parse(f.String(), op.Lookup)
		if err != nil {
			t.Fatalf("%v\n%v", err, f)
		}
		if g.String() != f.String() {
			t.Fatalf("got\n%v\nwant\n%v", g, f)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("func main(%0 \"x\": f32[4,6], %1: f32[6,8]) {\n  %2 = matmul{transX=true} %0 %1 : f32[4,8]  # " +
		"model.go:42\n  return %2\n}\n")
	for _, o := range op.All() {
		for _, s := range o.Samples() {
			if s.Op == nil {
				s.Op = o
			}
			f.Add("func f(%0: f32[2]) {\n %1 = " + ir.FormatOp(s.Op) + " %0\n return %1\n}")
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ir.Parse(text, op.Lookup)
		if err != nil {
			return
		}
		again, err := ir.Parse(p.String(), op.Lookup)
		if err != nil || again.String() != p.String() {
			t.Fatalf("%v: %q reads as\n%v", err, text, p)
		}
	})
}

func ExampleBuilder() {
	b := ir.NewBuilder("main")
	x := b.Param("x", f32(4, 6))
	w := b.Param("w", f32(6, 8))
	f, err := b.Build(op.Exp(op.MatMul(x, w)))
	fmt.Println(f, err)
	// Output:
	// func main(%0 "x": f32[4,6], %1 "w": f32[6,8]) {
	//   %2 = matmul %0 %1 : f32[4,8]  # ir_test.go:145
	//   %3 = exp %2 : f32[4,8]  # ir_test.go:145
	//   return %3
	// }
	//  <nil>
}
