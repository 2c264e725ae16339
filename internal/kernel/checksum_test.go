package kernel

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// TestCopySum: copies of all lengths, to and from all places of a line of memory, have the bytes and the CRC
// of crc32, and what is beside them stays.
func TestCopySum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := r.IntN(3 * leastSummed)
		if r.IntN(4) == 0 {
			n = r.IntN(20 * leastSummed)
		}
		from, to := r.IntN(64), r.IntN(64)
		src, dst := make([]byte, from+n), make([]byte, to+n+64)
		for i := range src {
			src[i] = byte(r.Uint32())
		}
		crc := r.Uint32()
		got, want := CopySum(dst[to:], src[from:], crc), crc32.Update(crc, castagnoli, src[from:])
		if got != want || !bytes.Equal(dst[to:to+n], src[from:]) {
			t.Fatalf("%d bytes from %d to %d: got %08x, want %08x", n, from, to, got, want)
		}
		if bytes.ContainsFunc(dst[:to], notZero) || bytes.ContainsFunc(dst[to+n:], notZero) {
			t.Fatalf("%d bytes from %d to %d: what is beside them changed", n, from, to)
		}
	}
}

func notZero(r rune) bool { return r != 0 }

func BenchmarkCopySum(b *testing.B) {
	src, dst := make([]byte, 19<<20), make([]byte, 19<<20)
	for name, f := range map[string]func(dst, src []byte, crc uint32) uint32{"best": CopySum,
		"plain": copySumPlain} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				f(dst, src, 0)
			}
		})
	}
}
