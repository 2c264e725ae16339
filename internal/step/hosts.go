package step

import (
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// hierarchical makes collectives of a program hierarchical: within hosts of the given number of devices, then
// between them, so that only a host's share crosses. All-to-alls do so if the saved messages are worth the
// relay through another device.
func hierarchical(f *ir.Func, host int) (*ir.Func, error) {
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

// relayed reports whether a collective should run in two steps. An all-to-all does not send fewer bytes to
// other hosts then: the latency of the saved messages must exceed the time of writing and reading all of it
// once more, for the relay and for reordering.
func relayed(n *ir.Node, host int) bool {
	o, is := n.Op().(op.Relay)
	if !is {
		return true
	}
	once, twice := op.Messages(o, host)
	w := n.Op().(op.Op).Work(typesOfValues(n.In()), typesOfValues(n.Out()))
	return float64(once-twice)*farLatency > 4*w.Wire/copyRate
}
