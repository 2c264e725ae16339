package jit

import (
	"testing"

	"github.com/galley-ml/galley/internal/lane"
)

// TestWeave: vectors are woven where a step computes much for what it reads and writes, and only there.
func TestWeave(t *testing.T) {
	for name, c := range map[string]struct {
		f    func(b *lane.Builder, x lane.Arg) lane.Arg
		want int
	}{"tanh": {(*lane.Builder).Tanh, plainLines}, "neg": {(*lane.Builder).Neg, 0}} {
		p := &Program{Cols: 1024, Streams: 2, Bytes: []int{4, 4}, Stores: []Store{{Value: 1, Stream: 1}},
			Values: []Value{{Kind: Stream}, {Kind: Map, In: []int{0}, Lane: one(c.f).lane}}}
		w := &compiler{p: p, wide: true, lanes: 16, size: 4, numbers: map[uint64]int{}, kept: map[int]mem{}}
		w.layout()
		if got := w.onlyPass().woven; got != c.want {
			t.Errorf("%s: %d vectors are woven, want %d", name, got, c.want)
		}
	}
}
