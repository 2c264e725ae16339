package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
)

// columnSums is the sums of columns of a loop: one of each block of rows, joined in the order of the blocks
// as kernel.AddRows joins them; and sums of all elements: one of each row, joined as kernel.Sum joins leaves.
type columnSums struct {
	p      *fusedProgram
	out    []array.Array
	blocks [][][]float32 // of each block, of each sum
	leaves [][]float32   // of each sum of all
}

func (p *fusedProgram) newColumnSums(out []array.Array) *columnSums {
	c := &columnSums{p: p, out: out}
	if p.plan.columns {
		c.blocks = make([][][]float32, blocks(p.plan.Rows, columnRows))
	}
	rows := 0
	for _, part := range p.parts {
		rows += part.rows
	}
	for range p.plan.kind(LoopTotal) {
		c.leaves = append(c.leaves, make([]float32, rows))
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

// emptySums returns memory for the sums of one block.
func (p *fusedProgram) emptySums(cols int) [][]float32 {
	var sums [][]float32
	for range p.plan.kind(LoopColumns) {
		sums = append(sums, make([]float32, cols))
	}
	return sums
}

// keep copies the sums of a block.
func (c *columnSums) keep(block int, sums [][]float32) {
	if c.blocks == nil {
		return
	}
	for _, s := range sums {
		c.blocks[block] = append(c.blocks[block], append([]float32(nil), s...))
	}
}

// join adds up the blocks and the leaves into the results.
func (c *columnSums) join() {
	for k, ln := range c.p.plan.kind(LoopColumns) {
		c.finish(ln, func(dst []float32) {
			clear(dst)
			for _, b := range c.blocks {
				kernel.Add(dst, b[k], dst)
			}
		})
	}
	for k, ln := range c.p.plan.kind(LoopTotal) {
		c.finish(ln, func(dst []float32) { dst[0] = kernel.Tree(c.leaves[k]) })
	}
}

// finish writes the result of a sum, if it is one of the loop's; that of a mean is divided.
func (c *columnSums) finish(ln *LoopNode, sum func(dst []float32)) {
	i := c.result(ln.node.Out()[0])
	if i < 0 {
		return
	}
	dst := array.Data[float32](c.out[i])
	sum(dst)
	if ln.loop.Count != 0 {
		divideAll(dst, float32(ln.loop.Count))
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
