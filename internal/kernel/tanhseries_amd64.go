//go:build !noasm

package kernel

// seriesKernels returns the kernels of tanh's derivatives for the best instruction set of this processor.
func seriesKernels() (seriesTable[float32], seriesTable[float64]) {
	switch {
	case hasAVX512():
		return seriesTable[float32]{lanes: 16, first: tanhFirstF32AVX512, second: tanhSecondF32AVX512,
				firstGrad: tanhFirstGradF32AVX512, secondGrad: tanhSecondGradF32AVX512,
				dots: seriesDotsF32AVX512, dotCols: 4},
			seriesTable[float64]{lanes: 8, first: tanhFirstF64AVX512,
				second: tanhSecondF64AVX512, firstGrad: tanhFirstGradF64AVX512,
				secondGrad: tanhSecondGradF64AVX512, dots: seriesDotsF64AVX512, dotCols: 4}
	case hasAVX2():
		return seriesTable[float32]{lanes: 8, first: tanhFirstF32AVX2, second: tanhSecondF32AVX2,
				firstGrad: tanhFirstGradF32AVX2, secondGrad: tanhSecondGradF32AVX2,
				dots: seriesDotsF32AVX2, dotCols: 2},
			seriesTable[float64]{lanes: 4, first: tanhFirstF64AVX2,
				second: tanhSecondF64AVX2, firstGrad: tanhFirstGradF64AVX2,
				secondGrad: tanhSecondGradF64AVX2, dots: seriesDotsF64AVX2, dotCols: 2}
	}
	return seriesTable[float32]{}, seriesTable[float64]{}
}
