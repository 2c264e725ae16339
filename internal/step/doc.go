// Package step plans a training step on many devices before any of it runs, and runs it.
//
// New takes a forward program and its requirements: meshes, the layouts of weights and their gradients, where
// stages begin, a pipeline schedule. It makes a Plan: stages and the layouts of their values, the schedule,
// and for every device a tape: the programs that it runs, in order, and the messages between stages, with an
// address for everything that passes between them. A plan is data. So it prints and parses, its memory is
// known to the byte, and all tapes are run against each other without devices or numbers: a message without a
// sender, or mismatched collectives, are errors of the compiler and not hangs. NewForward makes the plan of a
// forward pass, without a backward pass; one interpreter runs both.
package step
