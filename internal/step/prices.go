package step

import (
	"fmt"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/op"
)

// PricesOf returns the costs on a machine for devices with a number of threads: of every op, and of messages
// between devices, including the latency of waking the receiver.
func PricesOf(m Machine, threads int) spmd.Prices {
	known, p := map[string]float64{}, m.Prices
	const many = 1 << 20
	few := p.Deliver(0)
	return spmd.Prices{
		Default: spmd.Link{Alpha: max(1e-9, few+m.Latency), Beta: max(1e-15, (p.Deliver(many)-few)/many)},
		Op: func(o op.Op, in, out []ir.Type) float64 {
			key := fmt.Sprint(ir.FormatOp(o), in, out)
			seconds, ok := known[key]
			if !ok {
				seconds = p.Node(nodeOf(o, in), threads)
				known[key] = seconds
			}
			return seconds
		},
	}
}

// nodeOf returns an op applied to operands of some types.
func nodeOf(o op.Op, in []ir.Type) *ir.Node {
	b := ir.NewBuilder("node")
	args := make([]*ir.Value, len(in))
	for i, t := range in {
		args[i] = b.Param(fmt.Sprint("x", i), t)
	}
	return b.Apply(o, args)[0].Node()
}
