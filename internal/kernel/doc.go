// Package kernel holds the loops: over slices of float32 and float64, in assembly where the processor has
// AVX2 or AVX-512 and in plain Go everywhere, and the pool of threads that they share.
//
// A kernel knows nothing of tensors. Its doc comment says the loop that it is; the plain body is that loop,
// and tests hold every other body to it.
//
//	p := kernel.NewPool(2)
//	p.For(len(x), 1<<13, func(lo, hi int) { kernel.Exp(y[lo:hi], x[lo:hi]) })
package kernel
