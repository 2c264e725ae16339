package kernel

import (
	"math"
	"math/bits"
)

const (
	philoxM0 = 0xD2511F53
	philoxM1 = 0xCD9E8D57
	philoxW0 = 0x9E3779B9
	philoxW1 = 0xBB67AE85
)

// Philox returns the four words of Philox4x32-10 for a key and a counter.
func Philox(key [2]uint32, counter [4]uint32) [4]uint32 {
	c0, c1, c2, c3 := counter[0], counter[1], counter[2], counter[3]
	k0, k1 := key[0], key[1]
	for range 10 {
		hi0, lo0 := bits.Mul32(philoxM0, c0)
		hi1, lo1 := bits.Mul32(philoxM1, c2)
		c0, c1, c2, c3 = hi1^c1^k0, lo1, hi0^c3^k1, lo0
		k0 += philoxW0
		k1 += philoxW1
	}
	return [4]uint32{c0, c1, c2, c3}
}

// Which word of a 64-bit draw the third word of a counter selects. float32 draws use only the high words, so
// they are the float64 draws truncated.
const (
	highWords = 0
	lowWords  = 1
)

// drawGroup is the number of elements the vector kernels work in multiples of.
const drawGroup = 32

// philoxBlock returns the words of elements 4*block to 4*block+3.
func philoxBlock(key, block uint64, words uint32) [4]uint32 {
	return Philox([2]uint32{uint32(key), uint32(key >> 32)},
		[4]uint32{uint32(block), uint32(block >> 32), words, 0})
}

// UniformAt sets dst[i] to the uniform draw in [0,1) of logical index start+i,
// which depends on key and that index only. A float32 draw is the float64 draw
// of the same index cut to 24 bits.
func UniformAt[T Float](dst []T, key, start uint64) {
	if d := as32(dst); d != nil && simd.philoxUniform != nil {
		uniformVector(d, key, start)
		return
	}
	uniformPlain(dst, key, start)
}

// uniformVector runs the kernel on the largest range of whole groups of blocks and the plain loop before and
// after it, with the same bits.
func uniformVector(dst []float32, key, start uint64) {
	head := min(int(-start%4), len(dst))
	body := (len(dst) - head) / drawGroup * drawGroup
	uniformPlain(dst[:head], key, start)
	if body > 0 {
		simd.philoxUniform(dst[head:head+body], [2]uint32{uint32(key), uint32(key >> 32)}, (start+uint64(head))/4)
	}
	uniformPlain(dst[head+body:], key, start+uint64(head+body))
}

func uniformPlain[T Float](dst []T, key, start uint64) {
	narrow := as32(dst)
	fillBlocks(len(dst), start, func(block uint64, lo, hi, at int) {
		high := philoxBlock(key, block, highWords)
		if narrow != nil {
			for k := lo; k < hi; k++ {
				narrow[at+k-lo] = float32(high[k]>>8) * (1.0 / (1 << 24))
			}
			return
		}
		low := philoxBlock(key, block, lowWords)
		for k := lo; k < hi; k++ {
			dst[at+k-lo] = T(uniform53(high[k], low[k]))
		}
	})
}

// NormalAt sets dst[i] to the standard normal draw of logical index start+i,
// which depends on key and that index only. Indices 2j and 2j+1 are the two
// results of one Box-Muller transform of their uniform draws. A float32 draw is
// the float64 draw of the same index rounded.
func NormalAt[T Float](dst []T, key, start uint64) {
	var high, low [256]uint32
	var z [256]float64
	for at := 0; at < len(dst); {
		index := start + uint64(at)
		skip := int(index % 4)
		n := min(len(z), skip+len(dst)-at)
		whole := (n + drawGroup - 1) / drawGroup * drawGroup
		philoxFill(high[:whole], key, index/4, highWords)
		philoxFill(low[:whole], key, index/4, lowWords)
		for k := 0; k < n; k += 2 {
			// 1-u is in (0,1], where the logarithm is finite.
			r := math.Sqrt(-2 * math.Log(1-uniform53(high[k], low[k])))
			sin, cos := math.Sincos(2 * math.Pi * uniform53(high[k+1], low[k+1]))
			z[k], z[k+1] = r*cos, r*sin
		}
		for k := skip; k < n; k++ {
			dst[at+k-skip] = T(z[k])
		}
		at += n - skip
	}
}

// philoxFill sets dst[4*i+k] to word k of philoxBlock(key, block+i, words). The
// length is a multiple of drawGroup.
func philoxFill(dst []uint32, key, block uint64, words uint32) {
	if f := simd.philoxWords; f != nil {
		f(dst, [2]uint32{uint32(key), uint32(key >> 32)}, block, words)
		return
	}
	for i := 0; i < len(dst); i += 4 {
		w := philoxBlock(key, block, words)
		copy(dst[i:], w[:])
		block++
	}
}

// uniform53 converts the top 53 bits of a 64-bit draw to a float64 in [0,1).
func uniform53(high, low uint32) float64 {
	return float64((uint64(high)<<32|uint64(low))>>11) * (1.0 / (1 << 53))
}

// fillBlocks calls fill for every Philox block that holds some of the indices
// start to start+n-1: elements lo to hi-1 of the block go to dst[at:].
func fillBlocks(n int, start uint64, fill func(block uint64, lo, hi, at int)) {
	for at := 0; at < n; {
		index := start + uint64(at)
		lo := int(index % 4)
		hi := min(4, lo+n-at)
		fill(index/4, lo, hi, at)
		at += hi - lo
	}
}
