package array

import (
	"fmt"
	"math"
)

// At returns element i, in row-major order, as a float64; true is 1.
func (a Array) At(i int) float64 {
	switch a.dtype {
	case F64:
		return Data[float64](a)[i]
	case F32:
		return float64(Data[float32](a)[i])
	case BF16:
		return float64(Data[BFloat16](a)[i].Float32())
	case F16:
		return float64(Data[Float16](a)[i].Float32())
	case I64:
		return float64(Data[int64](a)[i])
	case I32:
		return float64(Data[int32](a)[i])
	case I16:
		return float64(Data[int16](a)[i])
	case U8:
		return float64(Data[uint8](a)[i])
	case Bool:
		if Data[bool](a)[i] {
			return 1
		}
		return 0
	}
	panic(fmt.Sprintf("array: element of %v", a.dtype))
}

// Set writes x to element i, in row-major order, in a's dtype; what is not zero is true. Only whoever made a
// may call it, before anyone else sees it.
func (a Array) Set(i int, x float64) {
	switch a.dtype {
	case F64:
		Data[float64](a)[i] = x
	case F32:
		Data[float32](a)[i] = float32(x)
	case BF16:
		Data[BFloat16](a)[i] = ToBFloat16(float32(x))
	case F16:
		Data[Float16](a)[i] = ToFloat16(float32(x))
	case I64:
		Data[int64](a)[i] = int64(x)
	case I32:
		Data[int32](a)[i] = int32(int64(x))
	case I16:
		Data[int16](a)[i] = int16(int64(x))
	case U8:
		Data[uint8](a)[i] = uint8(int64(x))
	case Bool:
		Data[bool](a)[i] = x != 0
	default:
		panic(fmt.Sprintf("array: element of %v", a.dtype))
	}
}

// Float64s copies the elements as float64.
func (a Array) Float64s() []float64 {
	xs := make([]float64, a.Len())
	for i := range xs {
		xs[i] = a.At(i)
	}
	return xs
}

// Float32 returns x as a float32, exactly.
func (x BFloat16) Float32() float32 { return math.Float32frombits(uint32(x) << 16) }

// ToBFloat16 rounds x to the nearest bfloat16, ties to even; a NaN stays one.
func ToBFloat16(x float32) BFloat16 {
	bits := math.Float32bits(x)
	if x != x {
		return BFloat16(bits>>16 | 0x40)
	}
	return BFloat16((bits + 0x7fff + bits>>16&1) >> 16)
}

// Float32 returns x as a float32, exactly.
func (x Float16) Float32() float32 {
	sign := uint32(x>>15) << 31
	exp := uint32(x>>10) & 0x1f
	frac := uint32(x) & 0x3ff
	switch {
	case exp == 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case exp != 0:
		return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
	}
	// Subnormal: frac units of 2^-24.
	v := float32(frac) * (1.0 / (1 << 24))
	return math.Float32frombits(math.Float32bits(v) | sign)
}

// ToFloat16 rounds x to the nearest half, ties to even; what is too large becomes infinite, a NaN stays one.
func ToFloat16(x float32) Float16 {
	bits := math.Float32bits(x)
	sign := Float16(bits >> 16 & 0x8000)
	mag := bits & 0x7fffffff
	switch {
	case mag > 0x7f800000:
		return sign | 0x7e00
	case mag >= 0x477ff000: // 65520 and above round to infinity
		return sign | 0x7c00
	case mag >= 0x38800000: // normal
		mag += 0xfff + mag>>13&1
		return sign | Float16((mag-0x38000000)>>13)
	}
	// Subnormal: adding 0.5 puts the bits of 2^-24 units at the bottom, rounded by the hardware.
	v := math.Float32frombits(mag) + 0.5
	return sign | Float16(math.Float32bits(v)-math.Float32bits(0.5))
}
