// Package jit compiles loops over rows and columns to machine code, for AVX2 with FMA or AVX-512.
//
// A Program describes what a loop loads, computes, folds and stores; the formulas of elements are from
// internal/lane. Compile generates one function: an outer loop over rows, inner loops for the passes over a
// row, and every value of a step in a register. Sums are added in the order of kernel.Sum and nothing is
// contracted, so the bits are those of the kernels. The code is a leaf: it makes no calls, uses no stack but
// for the return address, preserves BP, R14 and the direction flag, and ends with VZEROUPPER. It cannot be
// preempted: calls should be short.
//
// Memory is written first and made executable then, never both at once.
package jit
