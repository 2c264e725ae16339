// Package ptx writes kernels in PTX, the language that NVIDIA's drivers compile, for devices of compute
// capability 9.0: products of bf16 with what follows them, whose results need not go to memory and back in
// between.
//
// They are for these devices alone as they use what only those have: units in pairs, copies of whole tiles
// into a unit's memory, and products of such tiles by 128 threads. Triton's language, in which the other
// kernels are written (internal/triton), has no way to have some threads fetch while others multiply that XLA
// would launch; there, what follows a product costs as much as it saves (bench/h200/notes.md).
//
// Run runs the text on the host, threads, barriers, copies and products, for tests where there is no such
// device.
//
// Facts are from NVIDIA's manual of PTX; that descriptions of matrices can be put together on the device is
// what Triton does.
package ptx
