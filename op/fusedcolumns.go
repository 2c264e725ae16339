package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
)

// columnSums holds the column sums of a loop, one for each block of rows, which are combined in the order of
// kernel.AddRows; and total sums, one leaf for each row, which are combined in the order of kernel.Sum.
type columnSums struct {
	p      *fusedProgram
	out    []array.Array
	blocks [][]array.Array // by block, then by sum
	leaves []array.Array   // by total sum
}

func (p *fusedProgram) newColumnSums(out []array.Array) *columnSums {
	c := &columnSums{p: p, out: out}
	if p.plan.columns {
		c.blocks = make([][]array.Array, blocks(p.plan.Rows, columnRows))
	}
	rows := 0
	for _, part := range p.parts {
		rows += part.rows
	}
	for range p.plan.kind(LoopTotal) {
		c.leaves = append(c.leaves, array.New(p.plan.dtype(), rows))
	}
	return c
}

// kind returns the nodes of one kind.
func (p *LoopPlan) kind(k LoopKind) []*LoopNode {
	var list []*LoopNode
	for _, ln := range p.nodes {
		if ln.loop.Kind == k {
			list = append(list, ln)
		}
	}
	return list
}

// emptySums allocates the sums of one block.
func (p *fusedProgram) emptySums(cols int) []array.Array {
	var sums []array.Array
	for range p.plan.kind(LoopColumns) {
		sums = append(sums, array.New(p.plan.dtype(), cols))
	}
	return sums
}

// clearSums sets column sums to zero.
func clearSums(sums []array.Array) {
	for _, s := range sums {
		clear(s.Bytes())
	}
}

// keep copies the sums of a block.
func (c *columnSums) keep(block int, sums []array.Array) {
	if c.blocks == nil {
		return
	}
	for _, s := range sums {
		kept := array.New(s.DType(), s.Len())
		copy(kept.Bytes(), s.Bytes())
		c.blocks[block] = append(c.blocks[block], kept)
	}
}

// join combines blocks and leaves into the results.
func (c *columnSums) join() {
	for _, kind := range []LoopKind{LoopColumns, LoopTotal} {
		for k, ln := range c.p.plan.kind(kind) {
			if i := c.result(ln.node.Out()[0]); i >= 0 {
				float(c.out[i], func() { joinSums[float32](c, k, ln, c.out[i]) },
					func() { joinSums[float64](c, k, ln, c.out[i]) })
			}
		}
	}
}

// joinSums writes the result of sum k of its kind; for a mean it divides.
func joinSums[T floats](c *columnSums, k int, ln *LoopNode, out array.Array) {
	dst := array.Data[T](out)
	if ln.loop.Kind == LoopTotal {
		dst[0] = kernel.Tree(array.Data[T](c.leaves[k]))
	} else {
		clear(dst)
		for _, b := range c.blocks {
			kernel.Add(dst, array.Data[T](b[k]), dst)
		}
	}
	if ln.loop.Count != 0 {
		divideAll(dst, T(ln.loop.Count))
	}
}

func (c *columnSums) result(v *ir.Value) int {
	for i, x := range c.p.results {
		if x == v {
			return i
		}
	}
	return -1
}
