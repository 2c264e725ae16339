// Package kernel has the CPU kernels: loops over slices of float32 and float64, in assembly for AVX2 and
// AVX-512 and in plain Go for all processors, and the thread pool that they share.
//
// A kernel does not know about tensors. Its doc comment defines the loop; the plain Go body is that loop, and
// tests compare every other body with it.
//
//	p := kernel.NewPool(2)
//	p.For(len(x), 1<<13, func(lo, hi int) { kernel.Exp(y[lo:hi], x[lo:hi]) })
package kernel
