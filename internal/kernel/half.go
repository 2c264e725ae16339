package kernel

import (
	"math"
	"unsafe"
)

// BF16ToF32 returns the float32 of the same value as the bfloat16 h.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 rounds f to the nearest bfloat16, ties to even. A NaN stays a NaN.
func F32ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40 // quiet, so that truncating the bits cannot give an infinity
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// F16ToF32 returns the float32 of the same value as the IEEE half h.
func F16ToF32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0x1f:
		if frac != 0 {
			frac |= 0x200
		}
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case 0:
		// A subnormal is frac·2^-24, which float32 holds exactly.
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// F32ToF16 rounds f to the nearest IEEE half, ties to even. What is too large
// becomes an infinity and a NaN stays a NaN.
func F32ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00 | uint16(b>>13&0x3ff)
	case b >= 0x477ff000: // 65520, the tie between the largest half and 2^16
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: adding 0.5 leaves frac·2^-24 in the low bits, rounded
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	return sign | uint16((b-112<<23+0xfff+b>>13&1)>>13)
}

// BF16sToF32 converts src to the beginning of dst.
func BF16sToF32(dst []float32, src []uint16) { widenSlice(dst, src, formatBF16) }

// F16sToF32 converts src to the beginning of dst.
func F16sToF32(dst []float32, src []uint16) { widenSlice(dst, src, formatF16) }

// widenChunk bounds the elements of one call of a kernel, which cannot be
// preempted; the AVX2 kernels need multiples of 8.
const widenChunk = 1 << 15

// widenSlice converts by the kernels that widen operands of products.
func widenSlice(dst []float32, src []uint16, format gemmFormat) {
	dst = dst[:len(src)]
	for lo := 0; lo < len(src); lo += widenChunk {
		n := min(widenChunk, len(src)-lo)
		pack := gemmSets[0].f32.packAcross[format]
		whole := n &^ 7
		if whole > 0 {
			pack(unsafe.Pointer(&dst[lo]), unsafe.Pointer(&src[lo]), 0, whole, 1, whole)
		}
		if whole < n {
			pack(unsafe.Pointer(&dst[lo+whole]), unsafe.Pointer(&src[lo+whole]), 0, n-whole, 1, n-whole)
		}
	}
}

// F32sToBF16 converts src to the beginning of dst.
func F32sToBF16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, f := range src {
		dst[i] = F32ToBF16(f)
	}
}

// F32sToF16 converts src to the beginning of dst.
func F32sToF16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, f := range src {
		dst[i] = F32ToF16(f)
	}
}
