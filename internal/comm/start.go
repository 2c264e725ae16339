package comm

import (
	"fmt"

	"github.com/galley-ml/galley/array"
)

// start checks the call and passes it to the world. A call that is wrong by itself never reaches the peers.
func (g *Group) start(c *Call) *Pending {
	c.Group = g
	if err := c.Check(); err != nil {
		return Failed(err)
	}
	return g.comm.Start(c)
}

// equal returns the sizes of equal parts along dim of x.
func (g *Group) equal(kind Kind, x array.Array, dim int, sizes []int) ([]int, error) {
	if sizes != nil || dim < 0 || dim >= len(x.Shape()) {
		return sizes, nil // Check reports what is wrong
	}
	n, k := x.Shape()[dim], g.Size()
	if n%k != 0 {
		return nil, fmt.Errorf("%v: dim %d of %v: %d members cannot have equal parts: want sizes", kind, dim,
			typeOf(x), k)
	}
	sizes = make([]int, k)
	for i := range sizes {
		sizes[i] = n / k
	}
	return sizes, nil
}

// StartAllReduce begins an AllReduce.
func (g *Group) StartAllReduce(dst, x array.Array, by Reduce) *Pending {
	return g.start(&Call{Kind: AllReduce, In: x, Dst: dst, Reduce: by})
}

// StartAllGather begins an AllGather.
func (g *Group) StartAllGather(dst, x array.Array, dim int) *Pending {
	return g.start(&Call{Kind: AllGather, In: x, Dst: dst, Dim: dim})
}

// StartReduceScatter begins a ReduceScatter.
func (g *Group) StartReduceScatter(dst, x array.Array, by Reduce, dim int, sizes []int) *Pending {
	sizes, err := g.equal(ReduceScatter, x, dim, sizes)
	if err != nil {
		return Failed(err)
	}
	return g.start(&Call{Kind: ReduceScatter, In: x, Dst: dst, Reduce: by, Dim: dim, Sizes: sizes})
}

// StartAllToAll begins an AllToAll.
func (g *Group) StartAllToAll(dst, x array.Array, split int, sizes []int, concat int) *Pending {
	sizes, err := g.equal(AllToAll, x, split, sizes)
	if err != nil {
		return Failed(err)
	}
	return g.start(&Call{Kind: AllToAll, In: x, Dst: dst, Dim: split, Concat: concat, Sizes: sizes})
}

// StartAllToAllV begins an AllToAllV; Pending.Counts returns the number of rows from each member.
func (g *Group) StartAllToAllV(dst, x array.Array, rows []int) *Pending {
	return g.start(&Call{Kind: AllToAllV, In: x, Dst: dst, Sizes: rows})
}

// StartBroadcast begins a Broadcast.
func (g *Group) StartBroadcast(dst, x array.Array, root int) *Pending {
	return g.start(&Call{Kind: Broadcast, In: x, Dst: dst, Root: root})
}

// StartPermute begins a Permute.
func (g *Group) StartPermute(dst, x array.Array, pairs []Pair) *Pending {
	return g.start(&Call{Kind: Permute, In: x, Dst: dst, Pairs: pairs})
}

// StartGather begins a Gather.
func (g *Group) StartGather(dst, x array.Array, dim, root int) *Pending {
	return g.start(&Call{Kind: Gather, In: x, Dst: dst, Dim: dim, Root: root})
}

// StartScatter begins a Scatter.
func (g *Group) StartScatter(dst, x array.Array, dim int, sizes []int, root int) *Pending {
	if g.pos == root {
		var err error
		if sizes, err = g.equal(Scatter, x, dim, sizes); err != nil {
			return Failed(err)
		}
	}
	return g.start(&Call{Kind: Scatter, In: x, Dst: dst, Dim: dim, Sizes: sizes, Root: root})
}

// StartSend begins a Send.
func (g *Group) StartSend(x array.Array, to, tag int) *Pending {
	return g.start(&Call{Kind: Send, In: x, Root: to, Tag: tag})
}

// StartRecv begins a Recv.
func (g *Group) StartRecv(dst array.Array, from, tag int) *Pending {
	return g.start(&Call{Kind: Recv, Dst: dst, Root: from, Tag: tag})
}

// StartBarrier begins a Barrier, which is over when every member has begun it.
func (g *Group) StartBarrier() *Pending { return g.start(&Call{Kind: Barrier}) }
