// Package jit makes machine code of loops over rows and columns: AVX2 with FMA, or AVX-512.
//
// A Program says what a loop loads, computes, folds and stores; formulas of lanes come from internal/lane.
// Compile writes one function for it: rows outside, the passes over a row inside, every value of a step in a
// register. Sums are added in the order of kernel.Sum and nothing is contracted, so the bits are those of the
// kernels. The code is a leaf: it makes no calls, uses no stack but for the return address, leaves BP, R14
// and the direction flag alone, and ends with VZEROUPPER. It cannot be preempted: a call should be short.
//
// Memory is written first and made executable then, never both at once.
package jit
