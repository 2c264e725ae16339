package models

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

func TestLayoutFit(t *testing.T) {
	c := Config{Heads: 8, KVHeads: 4}
	for _, x := range []struct {
		in, want   Layout
		seq, heads int
		reason     string
	}{
		{Layout{Parts: 4, Context: op.ContextUlysses}, Layout{Parts: 4, Context: op.ContextUlysses}, 64, 1, ""},
		{Layout{Parts: 4, Context: op.ContextUlysses}, Layout{Parts: 4, Context: op.ContextRing}, 64, 2,
			"4 of keys, shared by 2: want multiples of 8"},
		{Layout{Parts: 3, Context: op.ContextUlysses}, Layout{Parts: 3, Context: op.ContextRing}, 64, 1,
			"want multiples of 3"},
		{Layout{Parts: 4, Order: Zigzag, Given: Zigzag}, Layout{Parts: 4, Order: Zigzag, Given: Zigzag}, 64, 1, ""},
		{Layout{Parts: 4, Order: Zigzag, Given: Zigzag}, Layout{Parts: 4}, 60, 1, "want a multiple of 8"},
		{Layout{Parts: 4, Context: op.ContextUlysses, Order: Zigzag}, Layout{Parts: 4, Context: op.ContextUlysses},
			64, 1, ""},
	} {
		got, reasons := x.in.Fit(c, x.seq, x.heads)
		if text := strings.Join(reasons, "; "); got != x.want || !strings.Contains(text, x.reason) ||
			(text == "") != (x.reason == "") {
			t.Errorf("%+v: got %+v because %q, want %+v because %q", x.in, got, text, x.want, x.reason)
		}
	}
}

func TestArrangeMistakes(t *testing.T) {
	m, err := New(Config{Family: "gpt2", Vocab: 8, Hidden: 4, Intermediate: 8, Layers: 1, Heads: 2,
		Positions: 8}, nn.Config{DType: array.F32})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []Layout{{Context: "rings"}, {Parts: -1}, {Given: Zigzag}, {Experts: -1}, {Capacity: 1},
		{Capacity: -1, Experts: 2}} {
		if _, err := Arrange(m, l); err == nil {
			t.Errorf("%+v: got no error", l)
		}
	}
}
