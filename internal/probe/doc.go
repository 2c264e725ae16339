// Package probe measures candidates of a plan on the devices that they are for, and watches a long run for
// what no plan foresaw.
//
// A probe runs the best few strategies of the cost model for a few steps each, in rounds, so that whatever
// else the machine does meets all alike, leaves out who is clearly slower, and ends when its time is up. A
// watch compares what each process of a run does with what the others do, names who is slow, and says whether
// another plan would be worth the move. Neither decides by one measurement.
package probe
