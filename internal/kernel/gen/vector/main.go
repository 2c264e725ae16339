// Command vector generates the vector kernels of package kernel, each for AVX2
// with FMA and for AVX-512. The formulas of element functions are internal/lane's.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!noasm")
	for _, s := range []isa{{"AVX2", 8, false}, {"AVX512", 16, false}} {
		s.unaryKernels()
		s.gradKernels()
		s.binaryKernels()
		s.reduceKernels()
		s.addRowsKernel()
		s.softmaxKernels()
		s.normKernels()
		s.normGradKernels()
		s.adamWKernel()
		s.philoxKernels()
	}
	for _, s := range []isa{{"F64AVX2", 4, true}, {"F64AVX512", 8, true}} {
		s.doubleKernels()
	}
	Generate()
}
