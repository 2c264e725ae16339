// Package lane says what a vector instruction set does to one lane: the formulas of exp, tanh, log and the
// rest of the element functions, as short lists of instructions over virtual registers and constants.
//
// A formula is written once, as a function on a Builder, for both kinds of vectors: those of 8 lanes (AVX2
// with FMA) and those of 16 (AVX-512), whose instructions differ in places. Readers turn the list into
// machine code (internal/jit) or run it on numbers (Run), which is how tests know what it means.
//
//	b := lane.NewBuilder(true, 1)
//	y := b.Tanh(b.In(0))
//	bits := lane.Run(b.Code, []uint32{math.Float32bits(0.5)}, y)
package lane
