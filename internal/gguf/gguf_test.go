package gguf_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/gguf"
	"github.com/galley-ml/galley/internal/quant"
)

func encoded(t testing.TB, meta []gguf.Pair, tensors ...gguf.Stored) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := gguf.Encode(&b, meta, tensors); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func parsed(t testing.TB, b []byte) *gguf.File {
	t.Helper()
	f, err := gguf.Parse(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestBlocks: what testdata/blocks.py decoded by the format's definition is what is read.
func TestBlocks(t *testing.T) {
	text, err := os.ReadFile("testdata/blocks.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Kind   gguf.Kind
		Bytes  string
		Floats []float64
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		data, err := hex.DecodeString(c.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		w := gguf.Stored{Name: "w", Shape: array.Shape{2, len(c.Floats) / 2}, Kind: c.Kind, Data: data}
		f := parsed(t, encoded(t, nil, w))
		a, err := f.Read("w")
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range array.Data[float32](a) {
			if math.Abs(float64(got)-c.Floats[i]) > 1e-5*(1e-3+math.Abs(c.Floats[i])) {
				t.Fatalf("%v: element %d: got %v, want %v", c.Kind, i, got, c.Floats[i])
			}
		}
		m, ok, err := f.Grouped("w")
		if err != nil || ok != (c.Kind == gguf.Q8_0 || c.Kind == gguf.Q4_0) {
			t.Fatalf("%v: integers %v, %v", c.Kind, ok, err)
		}
		if ok && !slices.Equal(m.Floats(), array.Data[float32](a)) {
			t.Fatalf("%v: integers mean something else", c.Kind)
		}
		if ok {
			if kind, back := gguf.Blocks(m); kind != c.Kind || !bytes.Equal(back, data) {
				t.Fatalf("%v: written as %v %x, want %x", c.Kind, kind, back, data)
			}
		}
	}
}

// TestFile: metadata and tensors come back as they were written.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	meta := []gguf.Pair{{"a", uint32(7)}, {"b", "text"}, {"c", float32(0.5)}, {"d", true},
		{"e", []string{"x", "yz"}}, {"f", []int32{-1, 2}}, {"g", int32(-3)}, {"h", uint64(1 << 40)}}
	floats := array.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	m := quant.Round(quant.Config{Bits: 4, Group: 32, Signed: true}, make([]float32, 64), 1, 64)
	kind, data := gguf.Blocks(m)
	err := gguf.Write(path, meta, []gguf.Stored{
		{Name: "x", Shape: floats.Shape(), Kind: gguf.F32, Data: floats.Bytes()},
		{Name: "y", Shape: array.Shape{1, 64}, Kind: kind, Data: data}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := f.Read("x")
	if err != nil || !bytes.Equal(got.Bytes(), floats.Bytes()) || !got.Shape().Equal(floats.Shape()) {
		t.Errorf("x: got %v, %v", got, err)
	}
	if _, ok := f.Tensor("y"); !ok || len(f.Names()) != 2 {
		t.Errorf("tensors: got %v", f.Names())
	}
	want := map[string]any{"a": uint64(7), "b": "text", "c": 0.5, "d": true, "g": int64(-3),
		"h": uint64(1 << 40)}
	for k, v := range want {
		if f.Meta[k] != v {
			t.Errorf("%s: got %v, want %v", k, f.Meta[k], v)
		}
	}
	if e, ok := f.Meta["e"].([]any); !ok || len(e) != 2 || e[1] != "yz" {
		t.Errorf("e: got %v", f.Meta["e"])
	}
}

// TestMistakes: files that are cut or say what cannot be are named.
func TestMistakes(t *testing.T) {
	x := gguf.Stored{Name: "x", Shape: array.Shape{8}, Kind: gguf.F32, Data: make([]byte, 32)}
	whole := encoded(t, []gguf.Pair{{"k", "v"}}, x)
	for n := range len(whole) {
		if _, err := gguf.Parse(bytes.NewReader(whole[:n]), int64(n)); err == nil {
			t.Fatalf("%d of %d bytes: got no error", n, len(whole))
		}
	}
	wrong := append([]byte("GGML"), whole[4:]...)
	_, err := gguf.Parse(bytes.NewReader(wrong), int64(len(wrong)))
	if err == nil || !strings.Contains(err.Error(), "GGUF") {
		t.Errorf("another magic: got %v", err)
	}
	x.Kind, x.Shape = gguf.Q8_0, array.Shape{3}
	if err := gguf.Encode(&bytes.Buffer{}, nil, []gguf.Stored{x}); err == nil {
		t.Error("a row of no whole blocks: got no error")
	}
}

// FuzzParse: any bytes are a file that can be read, or an error.
func FuzzParse(f *testing.F) {
	f.Add(encoded(f, []gguf.Pair{{"a", []string{"x"}}, {"general.alignment", uint32(64)}},
		gguf.Stored{Name: "x", Shape: array.Shape{1, 32}, Kind: gguf.Q4_0, Data: make([]byte, 18)}))
	f.Add(encoded(f, nil, gguf.Stored{Name: "x", Shape: array.Shape{2}, Kind: gguf.F16, Data: make([]byte, 4)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := gguf.Parse(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		for _, name := range file.Names() {
			file.Read(name)
			file.Grouped(name)
		}
	})
}
