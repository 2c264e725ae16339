// Package comm moves arrays between the ranks of a world: collectives over groups of ranks.
//
// Its one idea is the rendezvous. Every collective call carries a signature, and the n-th call of each member
// of a group belongs to the group's n-th rendezvous. A Rendezvous compares the calls as they arrive; NewPlan
// turns those of a complete one into results and pieces of work. The data is moved by a World, an interface:
// package inproc implements it for a single process. Every World passes commtest.Run.
//
// A reduction combines contributions as a balanced binary tree over group positions, the tree of kernel.Tree:
// the left subtree holds the largest power of two below the number of members. Its bits do not depend on
// timing, on the number of threads or on which goroutine did the work, and they are the same on all members.
// 16-bit floats are added in float32 and rounded once.
//
//	world, err := inproc.New(4)
//	err = world.Run(ctx, func(ctx context.Context, c comm.Comm) error {
//		all, err := c.Group(nil)
//		if err != nil {
//			return err
//		}
//		sum, err := all.AllReduce(array.Array{}, x, comm.Sum)   // the zero destination means new memory
//		pending := all.StartAllGather(array.Array{}, sum, 0)    // goes on while the rank computes
//		whole, err := pending.Wait()
//		…
//	})
//
// Roots, peers and pairs are positions in the group, never rank ids; in the group of all ranks the two agree.
package comm
