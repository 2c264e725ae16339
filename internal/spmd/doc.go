// Package spmd partitions a global program into the programs of single devices.
//
// Its one idea is that every value has the layout of its Spec, and that operands which an op needs in another
// layout are resharded by the cheapest moves: slices, gathers, all-to-alls, reductions, found by a search
// over Specs. Reshard finds the moves, Partition inserts them between the ops, and each of them is recorded
// with its source line, its bytes, its predicted time and its reason.
//
//	moves, cost, err := spmd.Reshard(m, t, from, to)   // [reduce_scatter tp dim 1 → @[dp,tp]]
//	p, err := spmd.Partition(f, specs, m, spmd.Config{})
//	local, err := p.Local(device)                      // shared by all devices for which it is the same
//
// Sizes need not divide: the axes of a dim apply one after the other, each to the piece that the previous one
// left, and shards may be shorter or empty.
package spmd
