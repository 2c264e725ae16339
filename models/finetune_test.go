package models

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// TestRecordedAdapters: PEFT's adapters are read, and give its logits, losses, gradients, merged logits and
// the gradients of the preference loss, as testdata/finetune.py has recorded them in float64. transformers
// keeps the angles of RoPE in float32, which llama's results show and GPT-2's do not.
func TestRecordedAdapters(t *testing.T) {
	for _, test := range []struct {
		name, base string
		limit      float64
	}{{"lora", "llama", 2e-5}, {"dora", "llama", 2e-5}, {"conv", "gpt2", 1e-12}} {
		t.Run(test.name, func(t *testing.T) { testRecordedAdapter(t, test.name, test.base, test.limit) })
	}
}

func testRecordedAdapter(t *testing.T, name, base string, limit float64) {
	s := newSession(t)
	in := nn.Config{Scope: s, DType: array.F64}
	m, err := Load(filepath.Join("testdata", base), in)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("testdata/adapters", name)
	if err := LoadAdapter(dir, m, in); err != nil {
		t.Fatal(err)
	}
	r, err := safetensors.Open(filepath.Join(dir, "reference.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := func(name string) array.Array {
		a, err := r.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	same := func(what string, got *op.Tensor) { differsBy(t, what, read(t, got), want(what), limit) }
	ids, labels := s.Tensor(want("ids")), s.Tensor(want("labels"))
	params := m.(*decoder).adapterParams()
	gradients := func(prefix string, loss *op.Tensor) {
		for i, g := range op.GradOnce([]*op.Tensor{loss}, nil, nn.Values(params)) {
			same(prefix+params[i].Name, g)
		}
	}
	same("logits", m.Forward(ids))
	loss := m.Loss(ids, labels)
	same("loss", op.Reshape(loss, 1))
	gradients("grad.", loss)
	pair := func(x *op.Tensor) *op.Tensor { return op.Reshape(x, 1, 2, x.Dim(1)) }
	dpo := PreferenceLoss(m, pair(ids), pair(labels), op.Reshape(s.Tensor(want("reference")), 1, 2), 0.1)
	same("dpo", op.Reshape(dpo, 1))
	gradients("dpo.", dpo)
	if err := Merge(m); err != nil {
		t.Fatal(err)
	}
	same("merged", m.Forward(ids))
	same("reference", LogProbs(mustLoad(t, base, in), ids, labels))
}

func mustLoad(t *testing.T, base string, in nn.Config) Model {
	t.Helper()
	m, err := Load(filepath.Join("testdata", base), in)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func differsBy(t *testing.T, what string, got, want array.Array, limit float64) {
	t.Helper()
	if got.Len() != want.Len() {
		t.Fatalf("%s: got shape %v, want %v", what, got.Shape(), want.Shape())
	}
	for i := range want.Len() {
		if d := math.Abs(got.At(i) - want.At(i)); !(d <= limit*(1+math.Abs(want.At(i)))) {
			t.Fatalf("%s: element %d: got %v, want %v", what, i, got.At(i), want.At(i))
		}
	}
}

func TestPreferenceLossShapes(t *testing.T) {
	s := newSession(t)
	m := mustLoad(t, "llama", nn.Config{Scope: s})
	x := tokens(s, 1, 2, 3)
	if err := PreferenceLoss(m, x, x, x, 0.1).Err(); err == nil ||
		!strings.Contains(err.Error(), "want [pairs, 2, seq]") {
		t.Errorf("got %v", err)
	}
}

// TestScores: the log-probability of a row is the sum over its labels that count, and it is what the model
// would say where every one of them is the likeliest.
func TestScores(t *testing.T) {
	s := newSession(t)
	m := mustLoad(t, "llama", nn.Config{Scope: s, DType: array.F64})
	ids := array.FromSlice([]int32{1, 2, 3, 4, 5, 6}, 2, 3)
	logits := read(t, m.Forward(s.Tensor(ids)))
	likeliest := read(t, op.ArgMax(m.Forward(s.Tensor(ids)), -1))
	labels := array.FromSlice([]int32{-100, int32(likeliest.At(1)), int32(likeliest.At(2)), 7, -100,
		(int32(likeliest.At(5)) + 1) % 24}, 2, 3)
	logProbs, others := Scores(m, s.Tensor(ids), s.Tensor(labels))
	got, said := read(t, logProbs), read(t, others)
	if said.At(0) != 0 || said.At(1) < 1 {
		t.Errorf("others: got %v", said)
	}
	for row := range 2 {
		want := 0.0
		for i := range 3 {
			if l := array.Data[int32](labels)[3*row+i]; l >= 0 {
				sum := 0.0
				for k := range 24 {
					sum += math.Exp(logits.At((3*row+i)*24 + k))
				}
				want += logits.At((3*row+i)*24+int(l)) - math.Log(sum)
			}
		}
		if math.Abs(got.At(row)-want) > 1e-12 {
			t.Errorf("row %d: got %v, want %v", row, got.At(row), want)
		}
	}
}
