package models

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// packable is a small model of each kind of attention and of position.
var packable = []Config{
	{Family: "llama", Vocab: 37, Hidden: 16, Intermediate: 24, Layers: 2, Heads: 4, KVHeads: 2},
	{Family: "gpt2", Vocab: 37, Hidden: 16, Intermediate: 24, Layers: 2, Heads: 2, Positions: 32},
	{Family: "gemma2", Vocab: 37, Hidden: 16, Intermediate: 24, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 8,
		Window: 3},
	{Family: "mistral", Vocab: 37, Hidden: 16, Intermediate: 24, Layers: 1, Heads: 2, Window: 4,
		Dropout: Dropout{Attention: 1e-12}}, // the path of dropout, which clears nothing at this rate
}

// TestPackedLoss: rows of several sequences have the loss and the gradients of the same sequences in rows of
// their own, whatever the family does with positions and windows.
func TestPackedLoss(t *testing.T) {
	c := data.NewCorpus(ids(7), ids(3), ids(12), ids(5), ids(1), ids(17))
	const seq = 12
	e := data.Pieces(c, seq)
	packed, err := data.Pack(e, seq)
	if err != nil {
		t.Fatal(err)
	}
	padded, err := data.Pad(e, seq)
	if err != nil {
		t.Fatal(err)
	}
	if packed.Len() >= padded.Len() {
		t.Fatalf("%d rows packed, %d padded", packed.Len(), padded.Len())
	}
	for _, config := range packable {
		t.Run(config.Family, func(t *testing.T) {
			s := newSession(t)
			m, err := New(config, nn.Config{Scope: s, Seed: 3, DType: array.F64})
			if err != nil {
				t.Fatal(err)
			}
			p := rowsOf(t, s, packed, seq, true)
			stop := nn.Train(m.Params(), func() *op.Tensor { return s.Tensor(array.Scalar(int64(1))) })
			got := PackedLoss(m, p[0], p[1], p[2], p[3])
			stop()
			q := rowsOf(t, s, padded, seq, false)
			want := m.Loss(q[0], q[1])
			sameWithin(t, "loss", got, want)
			a := op.GradOnce([]*op.Tensor{got}, nil, nn.Values(m.Params()))
			b := op.GradOnce([]*op.Tensor{want}, nil, nn.Values(m.Params()))
			for i, param := range m.Params() {
				sameWithin(t, param.Name, a[i], b[i])
			}
		})
	}
}

// ids returns n tokens of a small vocabulary.
func ids(n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32((i*i*5 + n*7 + i) % 37)
	}
	return list
}

// rowsOf returns all rows of a source as one batch.
func rowsOf(t *testing.T, s *cpu.Session, rows data.RowSource, seq int, packed bool) (list []*op.Tensor) {
	t.Helper()
	m, err := data.NewMixture([]data.MixtureSource{{Name: "all", Rows: rows, Weight: 1}},
		data.MixtureConfig{Batch: rows.Len(), Seq: seq, Order: data.Sequential, Packed: packed})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range m.From(0) {
		list = append(list, s.Tensor(a))
	}
	return list
}

func sameWithin(t *testing.T, name string, got, want *op.Tensor) {
	t.Helper()
	a, b := read(t, got), read(t, want)
	for i := range b.Len() {
		if d := math.Abs(a.At(i) - b.At(i)); !(d <= 1e-10*(1+math.Abs(b.At(i)))) {
			t.Fatalf("%s: element %d: got %v, want %v", name, i, a.At(i), b.At(i))
		}
	}
}

// TestPackedLossRefuses: a recurrence cannot keep sequences apart.
func TestPackedLossRefuses(t *testing.T) {
	s := newSession(t)
	m, err := New(Config{Family: "rwkv", Vocab: 37, Hidden: 16, Intermediate: 24, Layers: 1, Heads: 16},
		nn.Config{Scope: s})
	if err != nil {
		t.Fatal(err)
	}
	x := s.Tensor(array.New(array.I32, 1, 4))
	if err := PackedLoss(m, x, x, x, x).Err(); err == nil || !strings.Contains(err.Error(), "pad them instead") {
		t.Errorf("got %v", err)
	}
}
