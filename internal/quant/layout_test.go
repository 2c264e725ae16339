package quant_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/quant"
)

// fixture is a matrix as a checkpoint stores it, and what it means.
type fixture struct {
	Config  json.RawMessage
	Out, In int
	Tensors tensors
	Floats  []float64
}

type tensors map[string]struct {
	DType array.DType
	Shape array.Shape
	Data  []float64
}

func (t tensors) Type(name string) (array.DType, array.Shape, bool) {
	x, ok := t[name]
	return x.DType, x.Shape, ok
}

func (t tensors) Read(name string) (array.Array, error) {
	x, ok := t[name]
	if !ok {
		return array.Array{}, fmt.Errorf("no tensor %q", name)
	}
	a := array.New(x.DType, x.Shape...)
	for i, v := range x.Data {
		a.Set(i, v)
	}
	return a, nil
}

func fixtures(t testing.TB) []fixture {
	text, err := os.ReadFile("testdata/layouts.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []fixture
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestLayouts: what testdata/layouts.py packed by each format's definition means what it says.
func TestLayouts(t *testing.T) {
	for i, f := range fixtures(t) {
		l, err := quant.ParseLayout(f.Config)
		if err != nil {
			t.Fatal(err)
		}
		if n := l.Names(f.Tensors, "layer.weight"); len(n) != len(f.Tensors) {
			t.Errorf("case %d: got tensors %v of %d", i, n, len(f.Tensors))
		}
		m, err := l.Read(f.Tensors, "layer.weight", f.Out, f.In)
		if err == nil {
			err = m.Check()
		}
		if err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		for k, got := range m.Floats() {
			if math.Abs(float64(got)-f.Floats[k]) > 1e-6*math.Abs(f.Floats[k]) {
				t.Fatalf("case %d, %s: element %d: got %v, want %v", i, f.Config, k, got, f.Floats[k])
			}
		}
		for name := range f.Tensors {
			broken := tensors{}
			for n, x := range f.Tensors {
				if n == name {
					x.Shape = append(x.Shape.Clone(), 1)
				}
				broken[n] = x
			}
			if err := l.Check(broken, "layer.weight", f.Out, f.In); err == nil ||
				!strings.Contains(err.Error(), name) {
				t.Errorf("case %d: %s of another shape: got %v", i, name, err)
			}
		}
	}
}

// TestStore: what is written is what the definition says, and is read back.
func TestStore(t *testing.T) {
	c := quant.Config{Bits: 4, Group: 32}
	m := quant.Round(c, normals(3, 10*64), 10, 64)
	list, err := m.Store("layer.weight", array.F16)
	if err != nil {
		t.Fatal(err)
	}
	files := tensors{}
	for _, x := range list {
		e := files[x.Name]
		e.DType, e.Shape, e.Data = x.Array.DType(), x.Array.Shape(), x.Array.Float64s()
		files[x.Name] = e
	}
	text, err := json.Marshal(c.Settings([]string{"lm_head"}))
	if err != nil {
		t.Fatal(err)
	}
	l, err := quant.ParseLayout(text)
	if err != nil {
		t.Fatal(err)
	}
	back, err := l.Read(files, "layer.weight", 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range back.Floats() {
		if x != m.Floats()[i] {
			t.Fatalf("element %d: got %v, want %v", i, x, m.Floats()[i])
		}
	}
}

// TestParseLayout: what is not known is named.
func TestParseLayout(t *testing.T) {
	for text, want := range map[string]string{
		`{"quant_method": "hqq"}`:                                                               "hqq",
		`{"quant_method": "gptq", "bits": 3, "group_size": 128}`:                                "3 bits",
		`{"quant_method": "gptq", "bits": 4, "group_size": 48}`:                                 "group_size: got 48",
		`{"quant_method": "gptq", "bits": 4}`:                                                   "group_size",
		`{"quant_method": "gptq", "bits": 4, "group_size": 128, "checkpoint_format": "marlin"}`: "checkpoint_format",
		`{"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemv"}`:              "version",
		`{"quant_method": "compressed-tensors", "format": "int-quantized"}`:                     "format",
		`{"quant_method": "compressed-tensors", "format": "pack-quantized"}`:                    "config_groups",
		`[]`: "want an object",
	} {
		if _, err := quant.ParseLayout([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", text, err, want)
		}
	}
}

// FuzzParseLayout: any text is a layout that reads what it can, or an error.
func FuzzParseLayout(f *testing.F) {
	list := fixtures(f)
	for i, x := range list {
		f.Add([]byte(x.Config), i)
	}
	f.Fuzz(func(t *testing.T, text []byte, i int) {
		l, err := quant.ParseLayout(text)
		if err != nil {
			return
		}
		x := list[max(0, i)%len(list)]
		m, err := l.Read(x.Tensors, "layer.weight", x.Out, x.In)
		if err == nil {
			err = m.Check()
		}
		if err == nil {
			m.Floats()
		}
	})
}
