package plan

import (
	"fmt"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// ProgramCost is what one run of a device's own program takes.
type ProgramCost struct {
	// Compute and Communication are seconds; nothing is taken to hide the latter.
	Compute, Communication float64
	// Flops, Bytes and Wire add up the ops' work.
	Flops, Bytes, Wire float64
}

// Seconds is both together.
func (c ProgramCost) Seconds() float64 { return c.Compute + c.Communication }

// Program prices a traced or partitioned program node by node on a device of a group of hosts: what spmd.Partition returns, collectives
// included, which go over the host's fabric.
func Program(f *ir.Func, g *cluster.Group, cal Calibration, precision string) (ProgramCost, error) {
	w := Workload{Precision: precision}
	if _, ok := precisions[precision]; !ok {
		return ProgramCost{}, fmt.Errorf("plan: precision %q: not known", precision)
	}
	p, ok := newPricer(&g.Device, &cal, &w)
	if !ok {
		return ProgramCost{}, fmt.Errorf("plan: %s has no rate for %s", g.Device.Name, precision)
	}
	link := g.Fabric.Usual()
	var c ProgramCost
	for _, n := range f.Nodes() {
		o, ok := n.Op().(op.Op)
		if !ok {
			continue
		}
		work := o.Work(types(n.In()), types(n.Out()))
		c.Flops, c.Bytes, c.Wire = c.Flops+work.Flops, c.Bytes+work.Bytes, c.Wire+work.Wire
		if work.Wire > 0 {
			c.Communication += cal.Constants.communication() * (link.Setup + work.Wire/(link.Bandwidth*link.Efficiency))
			continue
		}
		c.Compute += cal.Constants.compute() * p.node(n)
	}
	return c, nil
}
