// Package seed finds how the values of a program should be on a mesh when nobody has said so.
//
// Its one idea: every op and every value that is used more than once is a variable, its labels are the ways
// in which its rule lets axes split it, forward and backward alike, and the price of a whole program is a sum
// over variables and over pairs of them: what an op computes on its part, and what it costs to bring a value
// from where it is made to where it is used. Layers that repeat share their variables, so the problem has the
// size of one layer. Messages between variables give a labelling and a lower bound of what any labelling
// costs: the gap between them is known.
//
//	r, _ := seed.Find(step, seed.Config{Mesh: m, Next: next})
//	r.Specs // the layout every value should have: for spmd.Partition
//	r.Seeds // how parameters should: for shard.Infer
//	r.Bound // no labelling in which repeated layers have one layout costs less, in the model of sums of pairs
//
// Files, from the ground up: field is the problem in numbers and its solution by messages; label is the ways
// to run an op; class finds what repeats; problem prices it all; seed ties them to a program.
package seed
