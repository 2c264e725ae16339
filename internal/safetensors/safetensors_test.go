package safetensors

import (
	"bytes"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/galley-ml/galley/array"
	"pgregory.net/rapid"
)

// samples has a tensor of every dtype, of several orders and an empty one.
func samples() []Named {
	return []Named{
		{"f64", array.FromSlice([]float64{1, -2.5, math.Inf(1)}, 3)},
		{"f32", array.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2)},
		{"bf16", array.FromSlice([]array.BFloat16{0x3f80, 0x4000}, 2)},
		{"f16", array.FromSlice([]array.Float16{0x3c00}, 1, 1)},
		{"i64", array.Scalar(int64(math.MinInt64))},
		{"i32", array.FromSlice([]int32{-1, 7}, 2, 1)},
		{"u8", array.FromSlice([]uint8{0, 255, 3}, 3)},
		{"bool", array.FromSlice([]bool{true, false}, 2)},
		{"empty", array.New(array.F32, 0, 4)},
		{"odd name \"<é>\"", array.FromSlice([]uint8{9}, 1)},
	}
}

func write(t *testing.T, tensors []Named, metadata map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := Write(path, tensors, metadata); err != nil {
		t.Fatal(err)
	}
	return path
}

// checkRead holds every tensor of s against want.
func checkRead(t testing.TB, s Source, want []Named) {
	t.Helper()
	if got := len(s.Names()); got != len(want) {
		t.Errorf("got %d names, want %d", got, len(want))
	}
	for _, w := range want {
		d, shape, ok := s.Type(w.Name)
		if !ok || d != w.Array.DType() || !shape.Equal(w.Array.Shape()) {
			t.Errorf("%q: type: got %v%v %v, want %v%v", w.Name, d, shape, ok, w.Array.DType(), w.Array.Shape())
		}
		got, err := s.Read(w.Name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), w.Array.Bytes()) || !got.Shape().Equal(w.Array.Shape()) {
			t.Errorf("%q: got %v, want %v", w.Name, got, w.Array)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	meta := map[string]string{"format": "pt", "note": "a <b> & c"}
	f, err := Open(write(t, samples(), meta))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	checkRead(t, f, samples())
	if diff := cmp.Diff(meta, f.Metadata()); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	want := []string{"i64", "f64", "empty", "f32", "i32", "bf16", "f16", "odd name \"<é>\"", "u8", "bool"}
	if diff := cmp.Diff(want, f.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestEmpty(t *testing.T) {
	f, err := Open(write(t, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.Names()) != 0 || f.Metadata() != nil {
		t.Errorf("got %v %v, want nothing", f.Names(), f.Metadata())
	}
}

func TestWriteIsDeterministic(t *testing.T) {
	forward := samples()
	backward := samples()
	slices.Reverse(backward)
	meta := map[string]string{"a": "1", "b": "2", "c": "3"}
	a, _ := os.ReadFile(write(t, forward, meta))
	b, _ := os.ReadFile(write(t, backward, meta))
	if !bytes.Equal(a, b) {
		t.Error("the bytes depend on the order of the tensors")
	}
	if n := a[0]; n%8 != 0 {
		t.Errorf("header: got %d bytes, want a multiple of 8", n)
	}
}

// TestGolden reads a file of the reference writer and writes it again, byte for byte.
func TestGolden(t *testing.T) {
	const path = "testdata/burgers.safetensors"
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var tensors []Named
	for _, name := range f.Names() {
		a, err := f.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, Named{name, a})
	}
	if got := tensors[len(tensors)-1]; got.Name != "xt" || !got.Array.Shape().Equal(array.Shape{64, 2}) {
		t.Errorf("last tensor: got %q %v, want xt [64,2]", got.Name, got.Array.Shape())
	}
	want, _ := os.ReadFile(path)
	if got, _ := os.ReadFile(write(t, tensors, f.Metadata())); !bytes.Equal(got, want) {
		t.Error("written again, the file differs")
	}
}

func TestReadRange(t *testing.T) {
	f, err := Open(write(t, samples(), nil))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lo := range 4 {
		for hi := lo; hi <= 3; hi++ {
			got, err := f.ReadRange("f32", lo, hi)
			if err != nil {
				t.Fatal(err)
			}
			want := []float32{1, 2, 3, 4, 5, 6}[2*lo : 2*hi]
			if !got.Shape().Equal(array.Shape{hi - lo, 2}) || !slices.Equal(array.Data[float32](got), want) {
				t.Errorf("rows %d to %d: got %v, want %v", lo, hi, got, want)
			}
		}
	}
	for _, bad := range []struct {
		name   string
		lo, hi int
		want   string
	}{
		{"f32", -1, 2, "rows out of range"},
		{"f32", 2, 1, "rows out of range"},
		{"f32", 0, 4, "rows out of range"},
		{"i64", 0, 1, "rows of a scalar"},
		{"none", 0, 1, `no tensor "none"`},
	} {
		_, err := f.ReadRange(bad.name, bad.lo, bad.hi)
		wantError(t, err, bad.want, "x.safetensors")
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("got no error, want one with %q", parts)
		return
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("got error %q, want %q in it", err, p)
		}
	}
}

func TestReadAfterShrinking(t *testing.T) {
	path := write(t, samples(), nil)
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	_, err = f.Read("bool")
	wantError(t, err, "file ends early", `"bool"`, path)
}

func TestArraysAreAligned(t *testing.T) {
	f, err := Open(write(t, samples(), nil))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, err := f.Read("bool")
	if err != nil {
		t.Fatal(err)
	}
	if addr := addressOf(a.Bytes()); addr%array.Alignment != 0 {
		t.Errorf("got address %#x, want a multiple of %d", addr, array.Alignment)
	}
}

func TestRandomRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		tensors := drawTensors(t)
		meta := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "metadata")
		path := filepath.Join(dir, "x.safetensors")
		if err := Write(path, tensors, meta); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, w := range tensors {
			got, err := f.Read(w.Name)
			if err != nil {
				t.Fatal(err)
			}
			if got.DType() != w.Array.DType() || !got.Shape().Equal(w.Array.Shape()) ||
				!bytes.Equal(got.Bytes(), w.Array.Bytes()) {
				t.Fatalf("%q: got %v, want %v", w.Name, got, w.Array)
			}
		}
		if !maps.Equal(meta, f.Metadata()) {
			t.Fatalf("metadata: got %v, want %v", f.Metadata(), meta)
		}
	})
}

func drawTensors(t *rapid.T) []Named {
	names := rapid.SliceOfDistinct(rapid.String(), rapid.ID[string]).Draw(t, "names")
	tensors := make([]Named, len(names))
	for i, name := range names {
		shape := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(t, "shape")
		a := array.New(rapid.SampledFrom(array.DTypes()).Draw(t, "dtype"), shape...)
		for j := range a.Bytes() {
			a.Bytes()[j] = rapid.ByteRange(0, 1).Draw(t, "byte")
		}
		tensors[i] = Named{name, a}
	}
	return tensors
}
