package comm

import (
	"bytes"
	"testing"

	"github.com/galley-ml/galley/array"
	"pgregory.net/rapid"
)

// TestMovePieces cuts random boxes at random bytes: the pieces together must be the whole.
func TestMovePieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 4).Draw(t, "shape")
		box := typ{array.F32, shape}
		dim := rapid.IntRange(0, len(shape)-1)
		srcDim, dstDim := dim.Draw(t, "src dim"), dim.Draw(t, "dst dim")
		from, to := rapid.IntRange(0, 3).Draw(t, "from"), rapid.IntRange(0, 3).Draw(t, "to")
		src := array.New(array.F32, box.with(srcDim, shape[srcDim]+from+1).shape...)
		for i := range src.Bytes() {
			src.Bytes()[i] = byte(i*7 + 1)
		}
		dst := typ{array.F32, box.with(dstDim, shape[dstDim]+to+1).shape}
		whole, cut := array.New(array.F32, dst.shape...), array.New(array.F32, dst.shape...)
		newMove(whole, dstDim, to, src, srcDim, from, box).do(nil, 0, box.bytes())
		m := newMove(cut, dstDim, to, src, srcDim, from, box)
		for lo := 0; lo < box.bytes(); {
			hi := min(box.bytes(), lo+rapid.IntRange(1, 40).Draw(t, "piece"))
			m.do(nil, lo, hi)
			lo = hi
		}
		if !bytes.Equal(whole.Bytes(), cut.Bytes()) {
			t.Fatalf("got %v, want %v", cut, whole)
		}
	})
}
