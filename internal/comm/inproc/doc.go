// Package inproc is the world of one process: every rank is a goroutine, and a collective reads its members'
// memory.
//
// The n-th call of each member of a group is the group's n-th meeting (comm.Meeting). Whoever comes first
// opens it, whoever comes last turns the members' calls into pieces of work (comm.NewPlan), and every member
// that waits takes pieces until none is left. Calls that do not fit each other are seen when they meet, and
// what can never meet is a cycle in the graph of who waits for whom: both are errors that name the ranks,
// found without timeouts.
//
//	world, err := inproc.New(4)
//	err = world.Run(ctx, func(ctx context.Context, c comm.Comm) error {
//		all, err := c.Group(nil)
//		…
//	})
//
// Processes makes worlds that share their ranks as the processes of a job do, so that what runs on a world
// can be tested where only some of its ranks are local. Another transport is a package beside this one that
// passes commtest.Run.
package inproc
