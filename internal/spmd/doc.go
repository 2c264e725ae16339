// Package spmd makes the program of one device out of the program of all.
//
// Its one idea is that every value has the layout that its Spec says, and that whatever an op needs to be
// laid out otherwise is brought there by the cheapest moves: slices, gathers, exchanges, reductions, found by
// a search over Specs. Reshard finds the moves, Partition puts them between the ops, and each of them is
// recorded with the line that it is for, its bytes, its predicted time and its reason.
//
//	moves, cost, err := spmd.Reshard(m, t, from, to)   // [reduce_scatter tp dim 1 → @[dp,tp]]
//	p, err := spmd.Partition(f, specs, m, spmd.Config{})
//	local, err := p.Local(device)                      // shared by all devices for which it is the same
//
// Sizes need not divide: the axes of a dim apply one after the other, each to the piece that the one before
// it left, and parts may be short or empty.
package spmd
