// Package inproc implements a world within one process: every rank is a goroutine, and collectives read the
// members' memory directly.
//
// The n-th call of each member of a group is the group's n-th rendezvous (comm.Rendezvous). The first member
// to arrive opens it, the last one turns the members' calls into pieces of work (comm.NewPlan), and every
// member that waits does pieces until none is left. Calls that do not match are found when they meet, and
// deadlocks are cycles in the graph of which rank waits for which: both are reported with the ranks' names,
// without timeouts.
//
//	world, err := inproc.New(4)
//	err = world.Run(ctx, func(ctx context.Context, c comm.Comm) error {
//		all, err := c.Group(nil)
//		…
//	})
//
// Processes simulates the processes of a job, each a world with some of the ranks, so that code can be
// tested with ranks that are not local. Other transports are packages beside this one; they pass
// commtest.Run, too.
package inproc
