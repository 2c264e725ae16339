package step

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/op"
)

// What exchanging costs devices that are the cores of hosts: the latency of a meeting within one and between
// two, the bytes a second that a network card carries, and those that a core copies and operations that it
// computes. Choices of buckets and of overlap go by them, and not by the machine at hand, so that a plan is
// the same everywhere.
const (
	nearLatency = 10e-6
	farLatency  = 40e-6
	farRate     = 12.5e9
	copyRate    = 20e9
	flopRate    = 96e9
)

// crosses reports whether a collective goes between hosts.
func (c Config) crosses(o op.Collective) bool { return c.Host > 0 && op.CrossesHosts(o, c.Host) }

// bucketOf is up to how many bytes collectives travel together: as the config says, or as long as the latency
// that is saved is more than what copying in and out of a bucket takes, which reads and writes twice.
func (c Config) bucketOf(o op.Collective) int {
	switch {
	case c.Bucket > 0:
		return c.Bucket
	case c.crosses(o):
		return farLatency * copyRate / 4
	}
	return nearLatency * copyRate / 4
}

// pays reports whether a collective that has something to compute meanwhile is worth starting ahead: it goes
// between hosts, for within one it is the cores themselves that copy, and hides more than it costs to wait.
func (c Config) pays(n *ir.Node, meanwhile float64) bool {
	o, ok := n.Op().(op.Collective)
	if !ok || !c.crosses(o) {
		return false
	}
	w := n.Op().(op.Op).Work(typesOfValues(n.In()), typesOfValues(n.Out()))
	return min(farLatency+w.Wire/farRate, meanwhile) > nearLatency
}

// secondsOf returns what computing a node takes a core.
func secondsOf(n *ir.Node) float64 {
	o, ok := n.Op().(op.Op)
	if _, exchange := n.Op().(op.Collective); !ok || exchange {
		return 0
	}
	w := o.Work(typesOfValues(n.In()), typesOfValues(n.Out()))
	return spmd.Prices{Memory: 1 / copyRate, Flop: 1 / flopRate}.Compute(w)
}

// worthwhile returns the collectives of a program, by the IDs of their results, that pay to start ahead.
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
			from = 0 // it is there from the beginning
		}
		list[id] = c.pays(n, until[use[id]]-from)
	}
	return list
}
