// Package triton has Galley's own kernels for CUDA devices, as text in Triton's IR, and an interpreter of
// such text, so that kernels can be tested without a GPU.
//
//	k := triton.LogSumExp(array.BF16, rows, width)
//	text := k.Text() // carried by a custom call of the module
//	err := triton.Run(text, [3]int{rows, 1, 1}, []array.Array{x, out}) // the kernel's pointers, in order
//
// Run knows the operations that the kernels use and checks more than a device does: types, and that no lane
// reads or writes outside of its array.
package triton
