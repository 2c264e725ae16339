// Package comm moves arrays between the ranks of a world: collectives over groups of ranks.
//
// Its one idea is the meeting. Every collective call carries a signature, and the n-th call of each member of a group
// belongs to the group's n-th meeting. Whoever comes first opens it, whoever comes last turns the members' arrays into
// pieces of work, and every member that waits takes pieces until none is left, reading its peers' memory directly. So
// calls that do not fit each other are seen when they meet, and what can never meet is a cycle in the graph of who
// waits for whom: both are errors that name the ranks, not hangs.
//
// A reduction combines contributions as a balanced binary tree over group positions, the tree of kernel.Tree: the left
// subtree holds the largest power of two below the number of members. Its bits do not depend on timing, on the number of
// threads or on who did the work, and they are the same on all members. 16-bit floats are added in float32 and rounded
// once.
//
//	world, err := comm.NewWorld(4)
//	err = world.Run(ctx, func(ctx context.Context, r *comm.Rank) error {
//		all, err := r.Group(nil)
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
