// Package step is a training step on many devices, planned before any of it runs.
//
// New takes a forward program and what is asked of it: meshes, how weights and their gradients lie, where
// stages begin, a pipeline schedule. It makes for every device a tape: the programs that it runs, in order,
// and the messages between stages, with a place in memory for everything that passes between them. A tape is
// data. So its memory is known to the byte, and all tapes are run against each other without devices or
// numbers: a message that nobody sends, or a collective that meets another, is an error of the compiler and
// not a hang.
package step
