package jit

import (
	"slices"

	"github.com/galley-ml/galley/internal/lane"
)

// fewVectors is the least vectors of a row for which row values are loaded to registers at its start.
const fewVectors = 8

// fixed returns the register of a constant or of a row's value, if it keeps one for the whole pass.
func (p *pass) fixed(a lane.Arg) (int, bool) {
	if a.IsConst() {
		r, ok := p.constants[a.Bits]
		return r, ok
	}
	value, ok := p.slots[a.Reg]
	if !ok {
		return 0, false
	}
	r, ok := p.rows[value]
	return r, ok
}

// fix assigns registers that a step does not need to the constants and row values that it reads most.
func (p *pass) fix() {
	p.limit = p.first
	defer p.skipLoads()
	if !p.hoisted && p.c.p.Cols < fewVectors*p.c.lanes {
		return
	}
	const spare = 1 // a partial last vector may need one more
	used, spilled := p.try(1)
	if spilled {
		return
	}
	numbers := p.mostRead()
	for n := p.mostWoven(); n > 1; n /= 2 { // as many vectors at once as leave registers for all of them
		if more, spilled := p.try(n); !spilled && p.limit-max(more+spare, work2+2) >= len(numbers) {
			used, p.woven = more, n
			break
		}
	}
	p.constants, p.rows = map[uint64]int{}, map[int]int{}
	for _, a := range numbers {
		if p.limit <= max(used+spare, work2+2) {
			return
		}
		p.limit--
		if a.IsConst() {
			p.constants[a.Bits] = p.limit
		} else {
			p.rows[p.slots[a.Reg]] = p.limit
		}
	}
}

// skipLoads makes instructions read constants in place and drops those that only copy a constant.
func (p *pass) skipLoads() {
	p.loaded = map[int]bool{}
	from := map[int]lane.Arg{}
	for i := range p.steps {
		in := &p.steps[i]
		if in.kind == laneInst && in.Op == lane.Load && in.Arg[0].IsConst() {
			if _, ok := p.constants[in.Arg[0].Bits]; ok {
				from[in.Dst], p.loaded[in.Dst] = in.Arg[0], true
			}
			continue
		}
		for k, a := range in.args() {
			if c, ok := from[a.Reg]; ok && !a.IsConst() {
				in.Arg[k] = c
			}
		}
	}
}

// try generates a step of the given number of vectors, discards it, and returns the registers it uses.
func (p *pass) try(vectors int) (used int, spilled bool) {
	c := p.c
	code, patches, spills := len(c.code), len(c.patches), c.spills
	c.spills, p.used = 0, 0
	p.write(p.weave(vectors), vectors, 0, 0, false)
	spilled = c.spills > 0
	c.code, c.patches, c.spills = c.code[:code], c.patches[:patches], spills
	return p.used, spilled
}

// mostRead returns the constants and row values of a step, ordered by how often they are read.
func (p *pass) mostRead() []lane.Arg {
	var list []lane.Arg
	var count []int
	for i := range p.steps {
		for _, a := range p.steps[i].args() {
			if _, row := p.slots[a.Reg]; !a.IsConst() && !row {
				continue
			}
			k := slices.Index(list, a)
			if k < 0 {
				k, list, count = len(list), append(list, a), append(count, 0)
			}
			count[k]++
		}
	}
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return count[b] - count[a] })
	sorted := make([]lane.Arg, len(list))
	for i, k := range order {
		sorted[i] = list[k]
	}
	return sorted
}

// loadFixed loads the fixed registers: row values, and constants if they are not loaded yet.
func (p *pass) loadFixed() {
	for _, a := range p.mostRead() {
		r, ok := p.fixed(a)
		switch {
		case !ok:
		case !a.IsConst():
			p.c.rm(vmovups, p.c.full(), r, 0, p.c.slot(p.slots[a.Reg]))
		case !p.hoisted:
			p.c.loadConst(r, a.Bits)
		}
	}
}

// onlyPass plans the pass of a loop with a single pass, and loads its constants.
func (c *compiler) onlyPass() *pass {
	p := &pass{c: c, reg: map[int]int{}, first: c.registers(), hoisted: true, lines: plainLines}
	p.plan(0, true)
	p.fix()
	for _, a := range p.mostRead() {
		if r, ok := p.fixed(a); ok && a.IsConst() {
			c.loadConst(r, a.Bits)
		}
	}
	c.rowLimit = p.limit
	return p
}
