package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
)

// columnSums is the sums of columns of a loop: one of each block of rows, joined in the order of the blocks
// as kernel.AddRows joins them.
type columnSums struct {
	p      *fusedProgram
	out    []array.Array
	blocks [][][]float32 // of each block, of each sum
}

func (p *fusedProgram) newColumnSums(out []array.Array) *columnSums {
	c := &columnSums{p: p, out: out}
	if p.plan.columns {
		c.blocks = make([][][]float32, blocks(p.plan.Rows, columnRows))
	}
	return c
}

// emptySums returns memory for the sums of one block.
func (p *fusedProgram) emptySums(cols int) [][]float32 {
	var sums [][]float32
	for _, ln := range p.plan.nodes {
		if ln.loop.Kind == LoopColumns {
			sums = append(sums, make([]float32, cols))
		}
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

// join adds up the blocks into the results.
func (c *columnSums) join() {
	if c.blocks == nil {
		return
	}
	k := 0
	for _, ln := range c.p.plan.nodes {
		if ln.loop.Kind != LoopColumns {
			continue
		}
		if i := c.result(ln.node.Out()[0]); i >= 0 {
			dst := array.Data[float32](c.out[i])
			clear(dst)
			for _, b := range c.blocks {
				kernel.Add(dst, b[k], dst)
			}
			if ln.loop.Count != 0 {
				divideAll(dst, float32(ln.loop.Count))
			}
		}
		k++
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
