package kernel

import (
	"fmt"
	"math"
	"testing"
)

// BenchmarkTables compares the instruction sets on the kernels that matter most.
func BenchmarkTables(b *testing.B) {
	const n = 4096
	x, y, z := randn(1, n), randn(2, n), make([]float32, n)
	best := simd
	defer func() { simd = best }()
	for _, nt := range tables() {
		simd = nt.table
		benchRow(b, nt.name+"/Exp", n, func() { Exp(z, x) })
		benchRow(b, nt.name+"/GELUTanh", n, func() { GELUTanh(z, x) })
		benchRow(b, nt.name+"/GELUTanhGrad", n, func() { GELUTanhGrad(z, x, y) })
		benchRow(b, nt.name+"/Softmax", n, func() { SoftmaxRow(z, x) })
		benchRow(b, nt.name+"/LayerNorm", n, func() { LayerNormRow(z, x, y, y, 1e-5) })
		benchRow(b, nt.name+"/Add", n, func() { Add(z, x, y) })
	}
}

// BenchmarkExpUnderflow shows whether tiny results, which masks produce, cost
// more than others.
func BenchmarkExpUnderflow(b *testing.B) {
	const n = 4096
	x, z := make([]float32, n), make([]float32, n)
	for _, v := range []float64{-1, -90, -100, -200, math.Inf(-1)} {
		for i := range x {
			x[i] = float32(v)
		}
		benchRow(b, fmt.Sprint(v), n, func() { Exp(z, x) })
	}
}
