// Command vector generates the float32 vector kernels of package kernel, each
// for AVX2 with FMA and for AVX-512.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!noasm")
	for _, s := range []isa{{name: "AVX2", width: 8}, {name: "AVX512", width: 16}} {
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
	Generate()
}
