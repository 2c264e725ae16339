// Package auto finds how the training step of any program is best spread over devices: nothing of it need be
// annotated, and its layers need no names that anybody knows.
//
// Its one idea: what is compared is what would run. A candidate is a strategy and a layout of every weight
// and of every tensor of the batch along the tensor axis; its step is planned as a trainer plans it, its
// tapes are run against a clock by the one cost model, and its memory is what those tapes take. The rest is
// where to look: shardings that package seed finds for every op of the step, forward and backward together,
// data parallelism, and from there whatever one change makes faster. Try tries all of the same space.
//
//	p, _ := auto.Find(auto.Config{Run: run, Batch: types, Machine: auto.Cores(host, 4, 2, limit), Plan: tapes.Plan})
//	p.Candidate // what to run
//	p.Gap()     // how far it is at most from the best, and p.String() says why others lose
//
// Files, from the ground up: machine is what prices are of; candidate is one way to train; space is all of
// them; price plans and prices one; propose asks package seed; find looks, try tries all; report says it.
package auto
