package op

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
)

// badBodies is bodies that are none, with a part of what is said of them.
var badBodies = []struct{ body, want string }{
	{"", "body: program: no closing brace"},
	{"func", "body, line 1, column 5: "},
	{"func body(%0: f32[2]) {\n  %1 = nope %0\n  return %1\n}\n",
		"body, line 2, column 12: no op is called \"nope\""},
	{"func body(%0: f32[2]) {\n  %1 = exp %0 %0\n  return %1\n}\n", "body, line 2, column 17: "},
	{"func body(%0: f32[2]) {\n  %1 = exp %7\n  return %1\n}\n", "%7 is used before it is made"},
	{"func body(%0: f32[2]) {\n  %1 = sum{dims=[4]} %0\n  return %1\n}\n", "dims [4] do not fit f32[2]"},
	{"func body(%0: f32[2]) {\n  %1 = sum{dims=[} %0\n  return %1\n}\n", "body, line 2, column "},
	{"func body(%0: f32[2]) {\n  %1 = exp %0 : f32[3]\n  return %1\n}\n", "body, line 2, column "},
	{"func body(%0: f32[2]) {\n  %1 = fused{body=\"x\"} %0\n  return %1\n}\n", "body, line 2, column "},
	{"func body(%0: f32[2], %1: f32[2]) {\n  %2 = add %0 %1\n  return %2\n}\n", "body takes 2 operands: got 1"},
	{"func body(%0: f32[2]) {\n" +
		"  %1 = fused{body=\"func body(%0: f32[2]) {\\n  %1 = exp %0\\n  return %1\\n}\\n\"} %0\n" +
		"  return %1\n}\n", "body has a fused op in it"},
}

// TestFusedBody: a body that is none gets an error that names the place, and never a panic.
func TestFusedBody(t *testing.T) {
	for _, c := range badBodies {
		o := fused{Body: c.body}
		_, err := o.Infer([]Type{{DType: array.F32, Shape: array.Shape{2}}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.body, err, c.want)
		}
		o.NumResults(1)
		o.InPlace()
		o.Work([]Type{{DType: array.F32, Shape: array.Shape{2}}}, nil)
	}
}

// TestFusedInPlace: what goes element by element is written over an operand, whether rows are told apart or
// all elements are one row.
func TestFusedInPlace(t *testing.T) {
	for _, c := range []struct {
		body string
		over int
	}{
		{"func body(%0: bf16[5,7], %1: f32[5,7]) {\n  %2 = cast{dtype=f32} %0\n  %3 = add %1 %2\n  return %3\n}\n",
			1},
		{"func body(%0: f32[35]) {\n  %1 = square %0\n  %2 = exp %1\n  return %2\n}\n", 0},
		{"func body(%0: f32[5,7]) {\n  %1 = square %0\n  %2 = sum{dims=[1]} %1\n  %3 = reshape{shape=[5,1]} %2\n" +
			"  %4 = mul %1 %3\n  return %4\n}\n", 0},
		{"func body(%0: f32[5,7]) {\n  %1 = exp %0\n  %2 = cast{dtype=f64} %1\n  return %2\n}\n", -1},
	} {
		over := fused{Body: c.body}.InPlace()
		if len(over) > 0 && over[0] != c.over || len(over) == 0 && c.over >= 0 {
			t.Errorf("%s: written over operand %v, want %d", c.body, over, c.over)
		}
	}
}

// FuzzFused: whatever a body says, it infers or is refused.
func FuzzFused(f *testing.F) {
	for _, c := range badBodies {
		f.Add(c.body)
	}
	for _, s := range (fused{}).Samples() {
		f.Add(s.Op.(fused).Body)
	}
	in := []Type{{DType: array.F32, Shape: array.Shape{5, 7}}, {DType: array.F32, Shape: array.Shape{7}}}
	f.Fuzz(func(t *testing.T, body string) {
		if len(body) > 1000 || strings.Count(body, "0") > 40 {
			return
		}
		o := fused{Body: body}
		o.NumResults(2)
		o.InPlace()
		_, _ = o.Infer(in)
	})
}
