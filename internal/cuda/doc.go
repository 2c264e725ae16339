// Package cuda writes calls of CUDA kernels into StableHLO programs: cuDNN's attention, and kernels of our
// own as text in Triton's IR, which XLA compiles, or in PTX, which the driver does.
//
// What a kernel is told, its layouts and its configuration, is here; which ops become one is package op's to
// say.
package cuda
