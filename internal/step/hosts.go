package step

import (
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// byHosts lets collectives of a program go along the topology: within hosts of so many devices, then between
// them, so that what crosses is a host's share of it. Exchanges go so where fewer messages are worth their
// way through another device.
func byHosts(f *ir.Func, host int) (*ir.Func, error) {
	defer fault.Pass("collectives by hosts", f)
	return f.Rewrite(func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		if c, is := n.Op().(op.Hierarchic); is && relayed(n, host) {
			if y, ok := op.ByHosts(c, host, in); ok {
				return y
			}
		}
		return b.Apply(n.Op(), in)
	})
}

// relayed reports whether a collective is to go in two steps. An exchange sends no fewer bytes to other hosts
// then: the latency of the messages that are saved must be more than writing and reading all of it once more,
// on the way through another device and as it is put in order there.
func relayed(n *ir.Node, host int) bool {
	o, is := n.Op().(op.Relay)
	if !is {
		return true
	}
	once, twice := op.Messages(o, host)
	w := n.Op().(op.Op).Work(typesOfValues(n.In()), typesOfValues(n.Out()))
	return float64(once-twice)*farLatency > 4*w.Wire/copyRate
}
