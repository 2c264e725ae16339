// Package process is the world whose ranks live in several processes. It asks of an engine only what
// comm.Transport says: notes in order, and messages by number.
//
// When all members of a group that live in a process have come to a meeting, the process posts one note to
// each other process of the group: its members' signatures, a number from which its messages are counted and,
// where these are short, their operands. When all notes are there the signatures are compared, and only then
// does a byte move: a mistake never touches an array. Short collectives are over then, since every process
// computes its own results from the notes. Long ones send boxes straight from and to the arrays where these
// are contiguous, once for each pair of processes.
//
// A reduction is the tree over group positions, wherever members live. A process combines the terms that it
// can, sends them to the process that joins them, and is sent the result: the bits are those of one process.
//
//	p := process.Join(transport)                  // one for each process of the job
//	world, err := p.NewWorld([]int{0, 0, 1, 1})   // in which process each rank lives
//	err = world.Run(ctx, worker)
//
// A failure is told to all processes, and every Run returns the same. After a failed run the process's worlds
// are over: its peers may still write to arrays that were given to collectives.
package process
