package op

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// TestPastCache: results that are written past the cache are the same, where they lie right for it and where
// they do not.
func TestPastCache(t *testing.T) {
	if !LoopsCompiled() {
		t.Skip("no code is generated on this machine")
	}
	defer func(n int) { pastBytes = n }(pastBytes)
	for _, text := range []string{
		"func body(%0: f32[64,256], %1: f32[256]) {\n  %2 = exp %0\n  %3 = mul %2 %1\n  return %3 %2\n}\n",
		"func body(%0: f64[64,256], %1: f64[256]) {\n  %2 = tanh %0\n  %3 = sum{dims=[1]} %2\n" +
			"  %4 = reshape{shape=[64,1]} %3\n  %5 = div %2 %4\n  %6 = mul %5 %1\n  return %6 %2\n}\n",
	} {
		f, err := ir.Parse(text, Lookup)
		if err != nil {
			t.Fatal(err)
		}
		pastBytes = 1 << 40
		near := newFusedProgram(f)
		pastBytes = 1
		far := newFusedProgram(f)
		if far.code == nil || far.code[0].past == nil || near.code[0].past != nil {
			t.Fatalf("%v: no code writes past the cache\n%s", far.why, text)
		}
		in := []array.Array{array.New(f.Params()[0].DType(), 64, 256), array.New(f.Params()[1].DType(), 256)}
		for _, a := range in {
			for i := range a.Len() {
				a.Set(i, float64(i%97)/50-1)
			}
		}
		want := outputs(f, 0)
		near.run(&Env{}, in, want)
		for _, shift := range []int{0, 8} {
			got := outputs(f, shift)
			far.run(&Env{}, in, got)
			for i := range want {
				if !bytes.Equal(got[i].Bytes(), want[i].Bytes()) {
					t.Errorf("result %d, %d bytes from where vectors begin, differs\n%s", i, shift, text)
				}
			}
		}
	}
}

// TestPastBound: a loop that computes much for each number that it moves is not bound by memory.
func TestPastBound(t *testing.T) {
	for text, want := range map[string]bool{
		"func body(%0: f32[64,256]) {\n  %1 = square %0\n  %2 = neg %1\n  return %2\n}\n":                   true,
		"func body(%0: f32[64,256]) {\n  %1 = tanh %0\n  %2 = exp %1\n  return %2\n}\n":                     false,
		"func body(%0: f32[64,256], %1: f32[64,256]) {\n  %2 = silu %0\n  %3 = mul %2 %1\n  return %3\n}\n": true,
	} {
		f, err := ir.Parse(text, Lookup)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := planBody(f)
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.bound(1); got != want {
			t.Errorf("bound by memory: got %v\n%s", got, text)
		}
	}
}

// outputs returns memory for the results of f, so many bytes behind where vectors begin.
func outputs(f *ir.Func, shift int) []array.Array {
	var out []array.Array
	for _, v := range f.Results() {
		n := v.Type().Bytes()
		b := array.New(array.U8, n+128).Bytes()
		at := (64 - int(uintptr(unsafe.Pointer(&b[0]))%64)) % 64
		out = append(out, array.View(v.DType(), v.Shape(), b[at+shift:][:n]))
	}
	return out
}
