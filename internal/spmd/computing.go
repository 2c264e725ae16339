package spmd

import "github.com/galley-ml/galley/op"

// Compute is the seconds that an op of this much work takes on one device.
func (p Prices) Compute(w op.Work) float64 { return p.compute(w.Flops, w.Bytes) }

// Computing is the seconds of all that a device computes itself, communication left out.
func (p *Program) Computing(device int, prices Prices) (float64, error) {
	f, err := p.Local(device)
	if err != nil {
		return 0, err
	}
	total := 0.0
	for _, n := range f.Nodes() {
		o := n.Op().(op.Op)
		if _, ok := o.(op.Collective); !ok {
			total += prices.Compute(o.Work(typesOf(n.In()), typesOf(n.Out())))
		}
	}
	return total, nil
}
