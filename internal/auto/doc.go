// Package auto finds the best distribution of a program's training step over devices. The program needs no
// annotations, and its layers no known names.
//
// Its one idea: candidates are compared by what would run. A candidate is a strategy and a layout of every
// weight and of every tensor of the batch along the tensor axis; its step is planned as a trainer plans it,
// its tapes are simulated with the one cost model, and its memory is that of the tapes. The search starts
// from shardings that package seed finds for every op of the step, forward and backward together, and from
// data parallelism, and changes one thing at a time as long as that is faster. Try enumerates the same space.
//
//	p, _ := auto.Find(auto.Config{Run: run, Batch: types, Machine: auto.Cores(host, 4, 2, limit), Plan: tapes.Plan})
//	p.Candidate // what to run
//	p.Gap()     // its largest possible distance from the best; p.String() explains why others lose
//
// Files, bottom up: machine holds the devices and their prices; candidate is one way to train; space
// enumerates them; price plans and prices one; propose calls package seed; find searches, try enumerates;
// report prints.
package auto
