package spmd

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Link is what communication costs along one axis.
type Link struct {
	// Alpha is the seconds that any collective takes, Beta those for each byte that a device sends.
	Alpha, Beta float64
}

// Prices say what communication and computing cost. The zero value is a guess at a good machine: what matters
// for the choice between plans is mostly how the numbers compare.
type Prices struct {
	// Default is the link of axes that Links does not name.
	Default Link
	// Links is by axis; a collective over several axes is as slow as the slowest.
	Links map[string]Link
	// Plain leaves out exchanges of single messages, for backends that have only the usual collectives.
	Plain bool
	// Memory is the seconds for each byte that an op moves between memory and processor, Flop those for each
	// operation.
	Memory, Flop float64
	// Op, if set, is the seconds of an op on a device, in place of those by Memory and Flop.
	Op func(o op.Op, in, out []ir.Type) float64
}

// The zero value's numbers: 10 µs and 50 GB/s between devices, 2 TB/s and 200 Tflop/s on one.
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

// Message returns the seconds that a message of so many bytes between two meshes takes.
func (p Prices) Message(bytes float64) float64 {
	l := p.Default
	if l == (Link{}) {
		l = defaultLink
	}
	return l.Alpha + l.Beta*bytes
}

// cheapest returns no dearer than the link of any of the axes.
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
	// Bytes is what the busiest device sends, Collectives how often devices meet, Time the predicted seconds.
	Bytes       float64
	Collectives int
	Time        float64
}

// Plus returns both costs together.
func (c Cost) Plus(o Cost) Cost {
	return Cost{c.Bytes + o.Bytes, c.Collectives + o.Collectives, c.Time + o.Time}
}

// localStep is the seconds that a move without communication counts for: enough to prefer fewer of them.
const localStep = 1e-9

// Price returns what a move costs that brings a tensor of a type from its Before to its After.
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
		bytes = share * max(before, after) // they differ where parts are uneven
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

// messages is how many collectives more an exchange counts for: it is messages to several peers.
const messages = 3
