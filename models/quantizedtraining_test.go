package models

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// TestQuantizedLayers: a model with integers computes as one whose weights are what the integers mean, and so
// do the gradients of adapters beside them.
func TestQuantizedLayers(t *testing.T) {
	for _, bits := range []int{4, 8} {
		s := newSession(t)
		in := nn.Config{Scope: s, Seed: 4}
		config := Config{Family: "llama", Vocab: 37, Hidden: 16, Intermediate: 24, Layers: 2, Heads: 4}
		m, plain := newModel(t, config, in), newModel(t, config, in)
		if err := QuantizeLayers(m, bits, 8, in); err != nil {
			t.Fatal(err)
		}
		meant(t, s, m, plain, bits)
		for _, x := range []Model{m, plain} {
			if err := Adapt(x, AdapterConfig{Rank: 2}, in); err != nil {
				t.Fatal(err)
			}
			stir(s, x)
		}
		ids := s.Tensor(array.FromSlice([]int32{1, 5, 9, 2, 7, 3, 36, 0}, 2, 4))
		got, want := m.Loss(ids, ids), plain.Loss(ids, ids)
		near(t, "loss", got, want)
		mine, theirs := nn.Values(m.(*decoder).adapterParams()), nn.Values(plain.(*decoder).adapterParams())
		g, w := op.GradOnce([]*op.Tensor{got}, nil, mine), op.GradOnce([]*op.Tensor{want}, nil, theirs)
		for i := range g {
			near(t, m.(*decoder).adapterParams()[i].Name, g[i], w[i])
		}
		frozen, err := Freeze(m)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "frozen", frozen.Loss(ids, ids), got)
		if err := Merge(m); err == nil || !strings.Contains(err.Error(), "integers") {
			t.Errorf("merge into integers: got %v", err)
		}
	}
}

func newModel(t *testing.T, c Config, in nn.Config) Model {
	t.Helper()
	m, err := New(c, in)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// meant gives plain the weights that the integers of m mean, by their definition.
func meant(t *testing.T, s *cpu.Session, m, plain Model, bits int) {
	t.Helper()
	found := 0
	for i, a := range m.(*decoder).linear {
		l, ok := a.(*nn.Linear)
		if !ok || l.Quantized() == nil {
			continue
		}
		found++
		q, scale := l.Quantized().Q.Value, l.Quantized().Scale.Value
		bytes, scales := array.Data[uint8](readValue(t, q)), array.Data[float32](readValue(t, scale))
		w := array.New(array.F32, l.Weight.Type.Shape...)
		for k := range array.Data[float32](w) {
			v := int(bytes[k*bits/8])
			if bits == 4 {
				v = v >> (4 * (k % 2)) & 15
			}
			array.Data[float32](w)[k] = float32(v-1<<(bits-1)) * scales[k/8]
		}
		p := plain.(*decoder).linear[i].Matrix()
		before := array.Data[float32](readValue(t, p.Value))
		for k, x := range array.Data[float32](w) {
			if d := x - before[k]; d > 0.7*scales[k/8] || d < -0.7*scales[k/8] {
				t.Fatalf("%s: element %d: got %v, want within a step of %v", p.Name, k, x, before[k])
			}
		}
		p.Value = s.Tensor(w).Track()
	}
	if found != 14 {
		t.Fatalf("got %d layers of integers, want 14", found)
	}
}

func readValue(t *testing.T, x *op.Tensor) array.Array {
	t.Helper()
	a, err := cpu.Read(x)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// near compares f32 values.
func near(t *testing.T, what string, got, want *op.Tensor) {
	t.Helper()
	g, w := array.Data[float32](readValue(t, got)), array.Data[float32](readValue(t, want))
	for i := range w {
		if d := g[i] - w[i]; d > 1e-4*(1+max(w[i], -w[i])) || -d > 1e-4*(1+max(w[i], -w[i])) || d != d {
			t.Fatalf("%s: element %d: got %v, want %v", what, i, g[i], w[i])
		}
	}
}
