// Package lane says what a vector instruction set does to one lane: the formulas of exp, tanh, log and the
// rest of the element functions, as short lists of instructions over virtual registers and constants.
//
// A formula is written once, as a function on a Builder (on a Double for lanes of 64 bits), for both kinds of
// vectors: those of 256 bits (AVX2 with FMA) and those of 512 (AVX-512), whose instructions differ in places.
// Three readers turn the list into what runs: the generator of the kernels' assembly
// (internal/kernel/gen/vector), the machine code of loops (internal/jit), and Run on numbers in plain Go,
// which is how tests know what it means.
//
//	b := lane.NewBuilder(true, 1)
//	y := b.Tanh(b.In(0))
//	bits := lane.Run(b.Code, []uint32{math.Float32bits(0.5)}, y)
package lane
