package comm

import (
	"bytes"
	"testing"

	"github.com/galley-ml/galley/array"
)

// FuzzSignature reads any bytes as a call: what can be read is written back as it was meant.
func FuzzSignature(f *testing.F) {
	g := RemoteGroup([]int{3, 0, 2}, 1)
	for _, c := range []*Call{
		{Kind: AllReduce, In: array.New(array.F32, 2, 3), Reduce: Max},
		{Kind: ReduceScatter, In: array.New(array.BF16, 6), Dim: 0, Sizes: []int{1, 2, 3}},
		{Kind: Permute, In: array.New(array.I64), Pairs: []Pair{{0, 2}, {2, 0}}},
		{Kind: Recv, Dst: array.New(array.U8, 4), Root: 2, Tag: -7},
	} {
		c.Group = g
		f.Add(c.AppendSignature(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, rest, err := ParseSignature(b, g)
		if err != nil {
			return
		}
		again, left, err := ParseSignature(append(c.AppendSignature(nil), rest...), g)
		if err != nil || !bytes.Equal(left, rest) || again.String() != c.String() {
			t.Errorf("got %v and %d bytes, want %v and %d: %v", again, len(left), c, len(rest), err)
		}
	})
}
