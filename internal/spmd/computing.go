package spmd

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Compute returns the seconds that this much work takes on one device.
func (p Prices) Compute(w op.Work) float64 { return p.compute(w.Flops, w.Bytes) }

// Seconds returns the time of an op on one device.
func (p Prices) Seconds(o op.Op, in, out []ir.Type) float64 {
	if p.Op != nil {
		return p.Op(o, in, out)
	}
	return p.Compute(o.Work(in, out))
}

// Computing returns the seconds of a device's own computation, without communication.
func (p *Program) Computing(device int, prices Prices) (float64, error) {
	f, err := p.Local(device)
	if err != nil {
		return 0, err
	}
	total := 0.0
	for _, n := range f.Nodes() {
		o := n.Op().(op.Op)
		if _, ok := o.(op.Collective); !ok {
			total += prices.Seconds(o, ir.TypesOf(n.In()), ir.TypesOf(n.Out()))
		}
	}
	return total, nil
}
