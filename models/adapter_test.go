package models

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// adaptedModel returns a small model with adapters whose B is not zero.
func adaptedModel(t testing.TB, s *cpu.Session, c Config, a AdapterConfig) Model {
	t.Helper()
	in := nn.Config{Scope: s, Seed: 4, DType: array.F64}
	m, err := New(c, in)
	if err != nil {
		t.Fatal(err)
	}
	if err := Adapt(m, a, in); err != nil {
		t.Fatal(err)
	}
	stir(s, m)
	return m
}

// stir gives B and magnitudes values of their own.
func stir(s *cpu.Session, m Model) {
	for i, p := range m.(*decoder).adapterParams() {
		noise := op.MulScalar(op.Normal(s, op.Key{Seed: uint64(i), Stream: 7}, p.Type.DType, p.Type.Shape), 0.1)
		p.Value = op.Add(p.Value, noise).Detach().Track()
	}
}

// TestAdapterIsItsDefinition: outputs and gradients in f64 are those of weights W + s·B·A, in rows of learned
// lengths with DoRA, whose norm is no part of the gradient.
func TestAdapterIsItsDefinition(t *testing.T) {
	for _, dora := range []bool{false, true} {
		s := newSession(t)
		in := nn.NewInit(nn.Config{Scope: s, Seed: 1, DType: array.F64})
		plain, dense := nn.NewLinear(in.At("a"), 5, 7), nn.NewDense(in.At("b"), 5, 7)
		for _, l := range []interface {
			nn.Adaptable
			nn.Projection
		}{plain, dense} {
			a, err := nn.NewAdapter(l, "x", nn.AdapterConfig{Rank: 3, Scale: 0.7, Magnitude: dora, Scope: s, Seed: 2})
			if err != nil {
				t.Fatal(err)
			}
			a.B.Value = op.Normal(s, op.Key{Seed: 9}, array.F64, array.Shape{7, 3}).Detach().Track()
			x := op.Normal(s, op.Key{Seed: 8}, array.F64, array.Shape{2, 4, 5})
			before := l.Forward(x)
			l.SetAdapter(a)
			got := op.Sum(op.Square(l.Forward(x)))
			want := op.Sum(op.Square(defined(x, l, a, op.Sub(before, product(x, l)))))
			sameWithin(t, "output", got, want)
			params := nn.Values(a.Params())
			g, w := op.GradOnce([]*op.Tensor{got}, nil, params), op.GradOnce([]*op.Tensor{want}, nil, params)
			for i, p := range a.Params() {
				sameWithin(t, p.Name, g[i], w[i])
			}
		}
	}
}

// product returns x times a layer's weights.
func product(x *op.Tensor, l nn.Adaptable) *op.Tensor {
	return op.MatMulT(x, l.Matrix().Value, false, !l.Transposed())
}

// defined returns a layer with an adapter by its definition, the weights written out.
func defined(x *op.Tensor, l nn.Adaptable, a *nn.Adapter, bias *op.Tensor) *op.Tensor {
	w := l.Matrix().Value
	if l.Transposed() {
		w = op.Transpose(w, 1, 0)
	}
	w = op.Add(w, op.MulScalar(op.MatMul(a.B.Value, a.A.Value), a.Scale))
	if a.Magnitude != nil {
		norm := op.StopGradient(op.Sqrt(op.Sum(op.Square(w), 1)))
		w = op.Mul(w, op.Unsqueeze(op.Div(a.Magnitude.Value, norm), 1))
	}
	return op.Add(op.MatMulT(x, w, false, true), bias)
}

// TestAdapt: a model begins as it was, has only its adapters trained, computes the same when they are merged,
// and is then the plain model again.
func TestAdapt(t *testing.T) {
	for _, c := range packable[:2] {
		for _, a := range []AdapterConfig{{Rank: 2}, {Rank: 3, Alpha: 5, DoRA: true, RankStabilized: true}} {
			s := newSession(t)
			in := nn.Config{Scope: s, Seed: 4, DType: array.F64}
			m, err := New(c, in)
			if err != nil {
				t.Fatal(err)
			}
			x := tokens(s, 3, 1, 4, 1, 5)
			before, names := m.Forward(x), nn.Names(m.Params())
			if err := Adapt(m, a, in); err != nil {
				t.Fatal(err)
			}
			sameWithin(t, "first", m.Forward(x), before)
			for _, p := range nn.Trainable(m.Params()) {
				if !strings.Contains(p.Name, ".lora_") {
					t.Errorf("%s is trained", p.Name)
				}
			}
			stir(s, m)
			changed := m.Forward(x)
			if f, err := Freeze(m); err != nil {
				t.Error(err)
			} else {
				sameWithin(t, "frozen", f.Forward(x), changed)
			}
			if err := Save(t.TempDir(), m, SaveConfig{}); err == nil || !strings.Contains(err.Error(), "SaveAdapter") {
				t.Errorf("save with adapters: got %v", err)
			}
			if err := Merge(m); err != nil {
				t.Fatal(err)
			}
			sameWithin(t, "merged", m.Forward(x), changed)
			if got := nn.Names(nn.Trainable(m.Params())); !reflect.DeepEqual(got, names) {
				t.Errorf("merged: got parameters %v", got)
			}
		}
	}
}

// TestAdapterFiles: an adapter that is written is read again, with what it says of itself.
func TestAdapterFiles(t *testing.T) {
	for _, a := range []AdapterConfig{{Rank: 2, Alpha: 3, Targets: []string{"q_proj", "down_proj"}},
		{Rank: 4, DoRA: true,
			Ranks: map[string]int{"v_proj": 2}, Alphas: map[string]float64{"0.self_attn.q_proj": 9}}} {
		s := newSession(t)
		m := adaptedModel(t, s, packable[0], a)
		dir := filepath.Join(t.TempDir(), "adapter")
		if err := SaveAdapter(dir, m, AdapterFiles{Base: "base"}); err != nil {
			t.Fatal(err)
		}
		n, err := New(packable[0], nn.Config{Scope: s, Seed: 4, DType: array.F64})
		if err != nil {
			t.Fatal(err)
		}
		if err := LoadAdapter(dir, n, nn.Config{Scope: s}); err != nil {
			t.Fatal(err)
		}
		x := tokens(s, 3, 1, 4, 1, 5)
		sameWithin(t, "read again", n.Forward(x), m.Forward(x))
		if base, err := AdapterBase(dir); err != nil || base != "base" || !IsAdapter(dir) {
			t.Errorf("base: got %q, %v", base, err)
		}
		var f map[string]any
		text, err := os.ReadFile(filepath.Join(dir, adapterConfigName))
		if err == nil {
			err = json.Unmarshal(text, &f)
		}
		if err != nil || f["peft_type"] != "LORA" || f["bias"] != "none" || f["r"] != float64(a.Rank) ||
			f["use_dora"] != a.DoRA {
			t.Errorf("config: got %s, %v", text, err)
		}
	}
}

func TestAdapterErrors(t *testing.T) {
	s := newSession(t)
	in := nn.Config{Scope: s}
	m, err := New(packable[0], in)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		config AdapterConfig
		want   string
	}{
		{AdapterConfig{}, "rank: got 0"}, {AdapterConfig{Rank: 1, Dropout: 1}, "dropout: got 1"},
		{AdapterConfig{Rank: 1, Alpha: math.NaN()}, "alpha: got NaN"},
		{AdapterConfig{Rank: 1, Targets: []string{"c_attn"}},
			`target "c_attn" names no linear layer of llama: it has q_proj`},
	} {
		if err := Adapt(m, test.config, in); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %q in it", test.config, err, test.want)
		}
	}
	for text, want := range map[string]string{
		`{"peft_type": "IA3"}`: `peft_type: got "IA3"`, `{"peft_type": "LORA", "r": 2, "bias": "all"}`: "bias",
		`{"peft_type": "LORA", "r": 2, "modules_to_save": ["lm_head"]}`: "modules_to_save",
		`{"peft_type": "LORA"}`: "rank: got 0", `[`: "unexpected end",
		`{"peft_type": "LORA", "r": "x"}`: "cannot unmarshal",
	} {
		if _, err := parseAdapterConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", text, err, want)
		}
	}
	if err := Merge(m); err == nil {
		t.Error("merge without adapters: got no error")
	}
	if err := SaveAdapter(t.TempDir(), m, AdapterFiles{}); err == nil {
		t.Error("save without adapters: got no error")
	}
	if err := LoadAdapter(t.TempDir(), m, in); err == nil {
		t.Error("no files: got no error")
	}
	if err := Adapt(m, AdapterConfig{Rank: 1}, in); err != nil {
		t.Fatal(err)
	}
	if err := Adapt(m, AdapterConfig{Rank: 1}, in); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("twice: got %v", err)
	}
}

func FuzzAdapterConfig(f *testing.F) {
	f.Add([]byte(`{"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"], "rank_pattern": {"v": 2}}`))
	f.Add([]byte(`{"peft_type": "LORA", "r": 8, "init_lora_weights": "pissa"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := parseAdapterConfig(text); err == nil && c.Rank < 1 {
			t.Errorf("rank %d", c.Rank)
		}
	})
}
