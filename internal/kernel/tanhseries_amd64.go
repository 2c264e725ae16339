//go:build !noasm

package kernel

// tanhKernels is the float64 kernels of tanh and its derivatives of the best set that this processor has.
func tanhKernels() tanhTable {
	switch {
	case hasAVX512():
		return tanhTable{lanes: 8, tanh: tanhF64AVX512, first: tanhFirstF64AVX512, second: tanhSecondF64AVX512,
			firstGrad: tanhFirstGradF64AVX512, secondGrad: tanhSecondGradF64AVX512}
	case hasAVX2():
		return tanhTable{lanes: 4, tanh: tanhF64AVX2, first: tanhFirstF64AVX2, second: tanhSecondF64AVX2,
			firstGrad: tanhFirstGradF64AVX2, secondGrad: tanhSecondGradF64AVX2}
	}
	return tanhTable{}
}
