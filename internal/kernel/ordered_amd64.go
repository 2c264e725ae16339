//go:build !noasm

package kernel

// orderedAsmSets returns the sets in assembly that this processor can run.
func orderedAsmSets() []orderedSet {
	var sets []orderedSet
	if hasAVX512() {
		sets = append(sets, orderedAVX512)
	}
	if hasAVX2() {
		sets = append(sets, orderedAVX2)
	}
	return sets
}

var orderedAVX512 = orderedSet{
	name: "AVX-512",
	f32: [2][orderedRows]orderedFunc[float32]{
		{orderedF32x1x16AVX512, orderedF32x2x16AVX512, orderedF32x3x16AVX512,
			orderedF32x4x16AVX512, orderedF32x5x16AVX512, orderedF32x6x16AVX512},
		{orderedF32x1x64AVX512, orderedF32x2x64AVX512, orderedF32x3x64AVX512,
			orderedF32x4x64AVX512, orderedF32x5x64AVX512, orderedF32x6x64AVX512},
	},
	bf16: [2][orderedRows]orderedFunc[uint16]{
		{orderedBF16x1x16AVX512, orderedBF16x2x16AVX512, orderedBF16x3x16AVX512,
			orderedBF16x4x16AVX512, orderedBF16x5x16AVX512, orderedBF16x6x16AVX512},
		{orderedBF16x1x64AVX512, orderedBF16x2x64AVX512, orderedBF16x3x64AVX512,
			orderedBF16x4x64AVX512, orderedBF16x5x64AVX512, orderedBF16x6x64AVX512},
	},
	i8: [2][orderedRows]orderedFunc[int8]{
		{orderedI8x1x16AVX512, orderedI8x2x16AVX512, orderedI8x3x16AVX512,
			orderedI8x4x16AVX512, orderedI8x5x16AVX512, orderedI8x6x16AVX512},
		{orderedI8x1x64AVX512, orderedI8x2x64AVX512, orderedI8x3x64AVX512,
			orderedI8x4x64AVX512, orderedI8x5x64AVX512, orderedI8x6x64AVX512},
	},
}

var orderedAVX2 = orderedSet{
	name: "AVX2",
	f32: [2][orderedRows]orderedFunc[float32]{
		{orderedF32x1x16AVX2, orderedF32x2x16AVX2, orderedF32x3x16AVX2,
			orderedF32x4x16AVX2, orderedF32x5x16AVX2, orderedF32x6x16AVX2},
		{orderedF32x1x64AVX2, orderedF32x2x64AVX2, orderedF32x3x64AVX2,
			orderedF32x4x64AVX2, orderedF32x5x64AVX2, orderedF32x6x64AVX2},
	},
	bf16: [2][orderedRows]orderedFunc[uint16]{
		{orderedBF16x1x16AVX2, orderedBF16x2x16AVX2, orderedBF16x3x16AVX2,
			orderedBF16x4x16AVX2, orderedBF16x5x16AVX2, orderedBF16x6x16AVX2},
		{orderedBF16x1x64AVX2, orderedBF16x2x64AVX2, orderedBF16x3x64AVX2,
			orderedBF16x4x64AVX2, orderedBF16x5x64AVX2, orderedBF16x6x64AVX2},
	},
	i8: [2][orderedRows]orderedFunc[int8]{
		{orderedI8x1x16AVX2, orderedI8x2x16AVX2, orderedI8x3x16AVX2,
			orderedI8x4x16AVX2, orderedI8x5x16AVX2, orderedI8x6x16AVX2},
		{orderedI8x1x64AVX2, orderedI8x2x64AVX2, orderedI8x3x64AVX2,
			orderedI8x4x64AVX2, orderedI8x5x64AVX2, orderedI8x6x64AVX2},
	},
}
