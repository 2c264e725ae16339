package spmd

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Link is the cost of communication along one axis.
type Link struct {
	// Alpha is the latency of a collective in seconds, Beta the seconds per byte that a device sends.
	Alpha, Beta float64
}

// Prices holds the costs of communication and computation. The zero value is a typical machine: the choice
// between plans depends mostly on the ratios.
type Prices struct {
	// Default is the link of axes that Links does not name.
	Default Link
	// Links is by axis; a collective over several axes is as slow as the slowest.
	Links map[string]Link
	// Plain excludes point-to-point messages, for backends that have only the usual collectives.
	Plain bool
	// Memory is the seconds per byte that an op moves between memory and processor, Flop those per operation.
	Memory, Flop float64
	// Op, if set, returns the seconds of an op on a device, in place of Memory and Flop.
	Op func(o op.Op, in, out []ir.Type) float64
}

// The defaults: 10 µs and 50 GB/s between devices, 2 TB/s and 200 Tflop/s on one.
var (
	defaultLink   = Link{Alpha: 10e-6, Beta: 1 / 50e9}
	defaultMemory = 1 / 2e12
	defaultFlop   = 1 / 200e12
)

func (p Prices) link(axes mesh.Axes) Link {
	var worst Link
	for _, s := range axes {
		l, ok := p.Links[s.Axis]
		if !ok {
			l = p.Default
		}
		if l == (Link{}) {
			l = defaultLink
		}
		worst = Link{max(worst.Alpha, l.Alpha), max(worst.Beta, l.Beta)}
	}
	return worst
}

// Message returns the seconds of a message between two meshes.
func (p Prices) Message(bytes float64) float64 {
	l := p.Default
	if l == (Link{}) {
		l = defaultLink
	}
	return l.Alpha + l.Beta*bytes
}

// cheapest returns a link that is at most as expensive as that of any of the axes.
func (p Prices) cheapest(axes mesh.Axes) Link {
	var best Link
	for i := range axes {
		l := p.link(axes[i : i+1])
		if i == 0 {
			best = l
		}
		best = Link{min(best.Alpha, l.Alpha), min(best.Beta, l.Beta)}
	}
	return best
}

func (p Prices) compute(flops, bytes float64) float64 {
	memory, flop := p.Memory, p.Flop
	if memory == 0 {
		memory = defaultMemory
	}
	if flop == 0 {
		flop = defaultFlop
	}
	return max(flops*flop, bytes*memory)
}

// Cost is the price of a sequence of moves.
type Cost struct {
	// Bytes is what the busiest device sends, Collectives the number of collectives, Time the predicted seconds.
	Bytes       float64
	Collectives int
	Time        float64
}

// Plus returns the sum of both costs.
func (c Cost) Plus(o Cost) Cost {
	return Cost{c.Bytes + o.Bytes, c.Collectives + o.Collectives, c.Time + o.Time}
}

// localStep is the price in seconds of a move without communication: enough to prefer fewer of them.
const localStep = 1e-9

// Price returns the cost of a move of a tensor of a type.
func (p Prices) Price(m *mesh.Mesh, t ir.Type, x Move) Cost {
	size := func(s mesh.Spec) float64 {
		b := float64(t.DType.Size())
		for d, n := range t.Shape {
			for _, a := range s.Dims[d] {
				n = (n + m.Extent(a) - 1) / m.Extent(a)
			}
			b *= float64(n)
		}
		return b
	}
	return p.price(x.Kind, m.Count(x.Axes), x.Axes, size(x.Before), size(x.After))
}

// price returns the cost of a move, given the bytes that a device holds before and after it.
func (p Prices) price(k Kind, n int, axes mesh.Axes, before, after float64) Cost {
	share := float64(n-1) / float64(max(n, 1))
	var bytes float64
	switch k {
	case Slice, Mask, Pad:
		return Cost{Time: localStep}
	case AllGather:
		bytes = share * after
	case ReduceScatter:
		bytes = share * before
	case AllToAll:
		bytes = share * max(before, after) // they differ if shards are uneven
	case AllReduce:
		bytes = 2 * share * before
	case Permute:
		bytes = max(before, after)
	case Exchange:
		bytes = after
	}
	link := p.link(axes)
	c := Cost{Bytes: bytes, Collectives: 1, Time: link.Alpha + link.Beta*bytes}
	if k == Exchange {
		c.Time += messages * link.Alpha
	}
	return c
}

// messages is the number of additional collectives that an exchange counts as, because it sends messages to
// several peers.
const messages = 3
