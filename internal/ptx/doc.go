// Package ptx writes kernels in PTX, the language that NVIDIA's drivers compile, for devices of compute
// capability 9.0: products of bf16 with what follows them, whose results need not go to memory and back in
// between.
//
// They run only on these devices, since they use what only those have: thread block clusters, copies of whole
// tiles to shared memory (TMA), and warpgroup products of such tiles (wgmma). In Triton, in which the other
// kernels are written (internal/triton), warp specialization, where some threads fetch while others multiply,
// is not possible in kernels that XLA launches; without it a fused epilogue costs as much as it saves
// (bench/h200/notes.md).
//
// Run emulates the text on the host, with its threads, barriers, copies and products, for tests without such
// a device.
//
// The facts are from NVIDIA's PTX manual; building tensor maps on the device is done as in Triton.
package ptx
