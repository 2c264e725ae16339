// Package probe measures candidate strategies on their devices, and monitors a long run for what no plan
// predicted.
//
// A probe runs the best few strategies of the cost model for a few steps each, in rounds, so that other load
// on the machine affects all equally, drops those that are clearly slower, and ends when its time is up. A
// watch compares the processes of a run with each other, names slow ones, and reports whether changing the
// plan would pay off. Neither decides by a single measurement.
package probe
