package step

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/op"
)

// Costs of communication for devices that are cores of hosts: the latency of a collective within a host and
// between hosts, the bytes per second of a network card, and those that a core copies and operations that it
// computes. The choices of buckets and overlap use them, and not the machine at hand, so that a plan is the
// same everywhere.
const (
	nearLatency = 10e-6
	farLatency  = 40e-6
	farRate     = 12.5e9
	copyRate    = 20e9
	flopRate    = 96e9
)

// crosses reports whether a collective goes between hosts.
func (c Config) crosses(o op.Collective) bool { return c.Host > 0 && op.CrossesHosts(o, c.Host) }

// bucketOf returns the maximal bytes of a bucket: those of the config, or as long as the saved latency
// exceeds the time of copying in and out of a bucket, which reads and writes twice.
func (c Config) bucketOf(o op.Collective) int {
	switch {
	case c.Bucket > 0:
		return c.Bucket
	case c.crosses(o):
		return farLatency * copyRate / 4
	}
	return nearLatency * copyRate / 4
}

// pays reports whether a collective that can overlap with computation is worth starting ahead: it is between
// hosts, because within one the cores themselves copy, and it hides more than waiting costs.
func (c Config) pays(n *ir.Node, meanwhile float64) bool {
	o, ok := n.Op().(op.Collective)
	if !ok || !c.crosses(o) {
		return false
	}
	w := n.Op().(op.Op).Work(typesOfValues(n.In()), typesOfValues(n.Out()))
	return min(farLatency+w.Wire/farRate, meanwhile) > nearLatency
}

// reduceInBackward reports whether each gradient is reduced within the backward pass, while others are
// computed, and not after it. That needs one backward pass a step and collectives that overlap computation.
func (c Config) reduceInBackward() bool {
	return c.Schedule.Micros == 1 && (c.Overlap == FullOverlap || c.Overlap == AutoOverlap && c.Host > 0)
}

// secondsOf returns the time of a node on a core.
func secondsOf(n *ir.Node) float64 {
	o, ok := n.Op().(op.Op)
	if _, exchange := n.Op().(op.Collective); !ok || exchange {
		return 0
	}
	w := o.Work(typesOfValues(n.In()), typesOfValues(n.Out()))
	return spmd.Prices{Memory: 1 / copyRate, Flop: 1 / flopRate}.Compute(w)
}

// worthwhile returns the collectives of a program, by the IDs of their results, that are worth starting
// ahead.
func (c Config) worthwhile(f *ir.Func) []bool {
	list := make([]bool, f.NumValues())
	use := make([]int, f.NumValues()) // the first node that reads a value
	for i := range use {
		use[i] = len(f.Nodes())
	}
	until := make([]float64, len(f.Nodes())+1) // seconds from the begin to a node
	for i, n := range f.Nodes() {
		until[i+1] = until[i] + secondsOf(n)
		for _, v := range n.In() {
			use[v.ID()] = min(use[v.ID()], i)
		}
	}
	for i, n := range f.Nodes() {
		id := n.Out()[0].ID()
		from := until[i]
		if len(n.In()) > 0 && n.In()[0].Node() == nil {
			from = 0 // it is available from the start
		}
		list[id] = c.pays(n, until[use[id]]-from)
	}
	return list
}
