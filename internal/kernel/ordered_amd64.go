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
	f32: orderedKernels[float32]{
		product: [2][orderedRows]orderedFunc[float32]{
			{orderedF32x1x16AVX512, orderedF32x2x16AVX512, orderedF32x3x16AVX512,
				orderedF32x4x16AVX512, orderedF32x5x16AVX512, orderedF32x6x16AVX512},
			{orderedF32x1x64AVX512, orderedF32x2x64AVX512, orderedF32x3x64AVX512,
				orderedF32x4x64AVX512, orderedF32x5x64AVX512, orderedF32x6x64AVX512},
		},
		across: [orderedRows]acrossFunc[float32]{
			orderedF32Across1AVX512, orderedF32Across2AVX512, orderedF32Across3AVX512,
			orderedF32Across4AVX512, orderedF32Across5AVX512, orderedF32Across6AVX512,
		},
		along: [orderedRows]alongFunc[float32]{
			orderedF32Along1AVX512, orderedF32Along2AVX512, orderedF32Along3AVX512,
			orderedF32Along4AVX512, orderedF32Along5AVX512, orderedF32Along6AVX512,
		},
	},
	bf16: orderedKernels[uint16]{
		product: [2][orderedRows]orderedFunc[uint16]{
			{orderedBF16x1x16AVX512, orderedBF16x2x16AVX512, orderedBF16x3x16AVX512,
				orderedBF16x4x16AVX512, orderedBF16x5x16AVX512, orderedBF16x6x16AVX512},
			{orderedBF16x1x64AVX512, orderedBF16x2x64AVX512, orderedBF16x3x64AVX512,
				orderedBF16x4x64AVX512, orderedBF16x5x64AVX512, orderedBF16x6x64AVX512},
		},
		across: [orderedRows]acrossFunc[uint16]{
			orderedBF16Across1AVX512, orderedBF16Across2AVX512, orderedBF16Across3AVX512,
			orderedBF16Across4AVX512, orderedBF16Across5AVX512, orderedBF16Across6AVX512,
		},
		along: [orderedRows]alongFunc[uint16]{
			orderedBF16Along1AVX512, orderedBF16Along2AVX512, orderedBF16Along3AVX512,
			orderedBF16Along4AVX512, orderedBF16Along5AVX512, orderedBF16Along6AVX512,
		},
	},
	i8: orderedKernels[int8]{
		product: [2][orderedRows]orderedFunc[int8]{
			{orderedI8x1x16AVX512, orderedI8x2x16AVX512, orderedI8x3x16AVX512,
				orderedI8x4x16AVX512, orderedI8x5x16AVX512, orderedI8x6x16AVX512},
			{orderedI8x1x64AVX512, orderedI8x2x64AVX512, orderedI8x3x64AVX512,
				orderedI8x4x64AVX512, orderedI8x5x64AVX512, orderedI8x6x64AVX512},
		},
		across: [orderedRows]acrossFunc[int8]{
			orderedI8Across1AVX512, orderedI8Across2AVX512, orderedI8Across3AVX512,
			orderedI8Across4AVX512, orderedI8Across5AVX512, orderedI8Across6AVX512,
		},
		along: [orderedRows]alongFunc[int8]{
			orderedI8Along1AVX512, orderedI8Along2AVX512, orderedI8Along3AVX512,
			orderedI8Along4AVX512, orderedI8Along5AVX512, orderedI8Along6AVX512,
		},
	},
}

var orderedAVX2 = orderedSet{
	name: "AVX2",
	f32: orderedKernels[float32]{
		product: [2][orderedRows]orderedFunc[float32]{
			{orderedF32x1x16AVX2, orderedF32x2x16AVX2, orderedF32x3x16AVX2,
				orderedF32x4x16AVX2, orderedF32x5x16AVX2, orderedF32x6x16AVX2},
			{orderedF32x1x64AVX2, orderedF32x2x64AVX2, orderedF32x3x64AVX2,
				orderedF32x4x64AVX2, orderedF32x5x64AVX2, orderedF32x6x64AVX2},
		},
	},
	bf16: orderedKernels[uint16]{
		product: [2][orderedRows]orderedFunc[uint16]{
			{orderedBF16x1x16AVX2, orderedBF16x2x16AVX2, orderedBF16x3x16AVX2,
				orderedBF16x4x16AVX2, orderedBF16x5x16AVX2, orderedBF16x6x16AVX2},
			{orderedBF16x1x64AVX2, orderedBF16x2x64AVX2, orderedBF16x3x64AVX2,
				orderedBF16x4x64AVX2, orderedBF16x5x64AVX2, orderedBF16x6x64AVX2},
		},
	},
	i8: orderedKernels[int8]{
		product: [2][orderedRows]orderedFunc[int8]{
			{orderedI8x1x16AVX2, orderedI8x2x16AVX2, orderedI8x3x16AVX2,
				orderedI8x4x16AVX2, orderedI8x5x16AVX2, orderedI8x6x16AVX2},
			{orderedI8x1x64AVX2, orderedI8x2x64AVX2, orderedI8x3x64AVX2,
				orderedI8x4x64AVX2, orderedI8x5x64AVX2, orderedI8x6x64AVX2},
		},
	},
}
