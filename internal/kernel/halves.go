package kernel

import "math"

// F32sToHalves splits float32s into bfloat16s, which are src rounded to nearest, and the 16 bits of the
// difference. For numbers half way between two bfloat16s that are rounded towards zero, the difference does
// not fit: they are replaced by the next number towards zero.
func F32sToHalves(upper []uint16, lower []int16, src []float32) {
	F32sToBF16(upper, src)
	lower = lower[:len(src)]
	for i, x := range src {
		between := int32(math.Float32bits(x) - uint32(upper[i])<<16)
		lower[i] = int16(max(math.MinInt16, min(between, math.MaxInt16)))
	}
}

// HalvesToF32s joins what F32sToHalves split.
func HalvesToF32s(dst []float32, upper []uint16, lower []int16) {
	lower = lower[:len(dst)]
	for i, u := range upper[:len(dst)] {
		dst[i] = math.Float32frombits(uint32(u)<<16 + uint32(int32(lower[i])))
	}
}
