// Package triton holds the kernels that Galley brings to CUDA devices itself, as text in Triton's IR, and
// runs such text plainly, so that kernels are tested as they are written where no GPU is at hand.
//
//	k := triton.LogSumExp(array.BF16, rows, width)
//	text := k.Text() // what a module's call carries
//	err := triton.Run(text, [3]int{rows, 1, 1}, []array.Array{x, out}) // the kernel's pointers, in order
//
// Run knows the operations that the kernels use and checks more than a device does: types, and that no lane
// reads or writes outside of its array.
package triton
