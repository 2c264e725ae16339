// Package step plans a training step on many devices before any of it runs, and runs it.
//
// New takes a forward program and what is asked of it: meshes, the layouts of weights and their gradients,
// where stages begin, a pipeline schedule. It makes a Plan: stages and how their values are laid out, the
// schedule, and for every device a tape, the programs that it runs, in order, and the messages between
// stages, with a place in memory for everything that passes between them. A plan is data. So it prints and
// parses, its memory is known to the byte, and all tapes are run against each other without devices or
// numbers: a message that nobody sends, or a collective that meets another, is an error of the compiler and
// not a hang. NewForward makes the plan of a forward pass, which has no backward half; one player plays both.
package step
