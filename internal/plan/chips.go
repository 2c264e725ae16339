package plan

import (
	"fmt"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Chips prices the nodes of any program on the devices of a cluster, as Host does for devices that share
// cores: computation by the curve of the slowest device, collectives by the links between the members of
// their groups.
type Chips struct {
	pricers []*pricer
	hw      *cluster.Cluster
	cal     Calibration
	// Apart is the distance, in devices, between neighbours of a pipeline.
	Apart int
}

// NewChips returns the devices of a cluster that multiply in a precision, as in Workload.
func NewChips(hw *cluster.Cluster, cal Calibration, precision string) (*Chips, error) {
	w := Workload{Precision: precision}
	if _, ok := precisions[precision]; !ok {
		return nil, fmt.Errorf("plan: precision %q: want bf16, fp16 or fp32", precision)
	}
	c := &Chips{hw: hw.Filled(), cal: cal, Apart: 1}
	for i := range c.hw.Groups {
		d := &c.hw.Groups[i].Device
		p, ok := newPricer(d, &c.cal, &w)
		if !ok {
			return nil, fmt.Errorf("plan: %s has no rate for %s: got %v", d.Name, precision, d.Rates)
		}
		c.pricers = append(c.pricers, p)
	}
	return c, nil
}

// Node returns the seconds of a node on the slowest device; of a collective, those of its groups.
func (c *Chips) Node(n *ir.Node, _ int) float64 {
	if o, ok := n.Op().(op.Collective); ok {
		if seconds, known := c.collective(o, n); known {
			return seconds
		}
	}
	slowest := 0.0
	for _, p := range c.pricers {
		slowest = max(slowest, p.node(n, map[*ir.Value]bool{}))
	}
	return slowest * c.cal.Constants.compute()
}

// collective returns the time of a collective. If it computes as well, that is added.
func (c *Chips) collective(o op.Collective, n *ir.Node) (float64, bool) {
	in, out := ir.TypesOf(n.In()), ir.TypesOf(n.Out())
	kind, known := cluster.KindOf(o.Name())
	bytes := float64(max(moves(in), moves(out)))
	if !known {
		kind, bytes = cluster.AllToAll, o.Work(in, out).Wire
	}
	scale := c.cal.Constants.communication()
	seconds := scale * c.hw.Collective(kind, bytes, axisOf(o)).Seconds
	if known {
		return seconds, true
	}
	slowest := 0.0
	for _, p := range c.pricers {
		slowest = max(slowest, p.node(n, map[*ir.Value]bool{}))
	}
	return seconds + slowest*c.cal.Constants.compute(), true
}

// axisOf returns the groups of a collective on the cluster's devices, which are numbered as in the mesh.
func axisOf(o op.Collective) cluster.Axis {
	text, _ := o.Over()
	m, err := mesh.Parse(text)
	if err != nil {
		return cluster.Axis{}
	}
	members, err := op.Members(o, m.Devices()[0])
	if err != nil || len(members) < 2 {
		return cluster.Axis{}
	}
	return cluster.Axis{Size: len(members), Stride: max(1, members[1]-members[0])}
}

// Deliver returns the seconds of a message between neighbours of a pipeline.
func (c *Chips) Deliver(bytes float64) float64 {
	return c.cal.Constants.communication() *
		c.hw.Collective(cluster.SendRecv, bytes, cluster.Axis{Size: 2, Stride: c.Apart}).Seconds
}

// Copy returns the seconds that copying bytes takes on a device.
func (c *Chips) Copy(bytes float64) float64 {
	slowest := 0.0
	for _, p := range c.pricers {
		slowest = max(slowest, 2*bytes/(p.device.Bandwidth*p.curve.Stream))
	}
	return slowest
}
