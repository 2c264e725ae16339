// Package process implements a world whose ranks are in several processes. It needs only a comm.Transport:
// notes in order, and messages.
//
// When all members of a group in a process have arrived at a rendezvous, the process posts one note to each
// other process of the group: its members' signatures, the number of its first message and, if they are
// short, their operands. When all notes have arrived the signatures are compared, and only then is data
// written: a mismatch never changes an array. Short collectives are then complete, since every process
// computes its own results from the notes. Long ones send boxes directly from and to the arrays if these are
// contiguous, once for each pair of processes.
//
// A reduction uses the same tree over group positions, in whatever processes members are. A process combines
// the subtrees that it holds, sends them to the process that joins them, and receives the result, with the
// bits of one process.
//
//	p := process.Join(transport)                  // one for each process of the job
//	world, err := p.NewWorld([]int{0, 0, 1, 1})   // the process of each rank
//	err = world.Run(ctx, worker)
//
// A failure is sent to all processes, and every Run returns the same error. After a failed run the process's
// worlds cannot be used again: peers may still write to arrays that were passed to collectives.
package process
