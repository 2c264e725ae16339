package jit

import (
	"slices"

	"github.com/galley-ml/galley/internal/lane"
)

// fewVectors is how many vectors a row has at least for which numbers are put into registers at its begin.
const fewVectors = 8

// fixed returns the register of a constant or of a number of a row, if it has one for the whole pass.
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

// fix gives registers that a step does not need to the constants and numbers of rows that it reads most.
func (p *pass) fix() {
	p.limit = p.first
	defer p.skipLoads()
	if !p.hoisted && p.c.p.Cols < fewVectors*p.c.lanes {
		return
	}
	const spare = 1 // a last vector that is not whole may need one more
	used, spilled := p.try(1)
	if spilled {
		return
	}
	numbers := p.mostRead()
	for n := p.mostWoven(); n > 1; n /= 2 { // as many vectors at once as leave registers for all numbers
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

// skipLoads has instructions read constants where they are: one that only copies a constant is left out.
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

// try writes a step of so many vectors for nothing, and says how many registers it takes.
func (p *pass) try(vectors int) (used int, spilled bool) {
	c := p.c
	code, patches, spills := len(c.code), len(c.patches), c.spills
	c.spills, p.used = 0, 0
	p.write(p.weave(vectors), vectors, 0, 0, false)
	spilled = c.spills > 0
	c.code, c.patches, c.spills = c.code[:code], c.patches[:patches], spills
	return p.used, spilled
}

// mostRead returns the constants and numbers of rows of a step, those that are read most often first.
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

// loadFixed fills the registers that hold numbers of the row, and constants if they are not there yet.
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

// onlyPass plans the pass of a loop that goes over its rows once, and loads its constants.
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

// fetchAhead keeps the next row of streams that are read: the first pass over it finds it in the cache.
func (p *pass) fetchAhead() {
	free := append([]int{r13}, pinned[len(p.reg):]...)
	for i, v := range p.c.p.Values {
		if v.Kind != Stream || v.Level != Elem || v.Phase != 0 || v.Truth || len(free) == 0 || !p.c.readFirst(i) {
			continue
		}
		r := free[0]
		free, p.ahead = free[1:], append(p.ahead, r)
		p.c.load(r, p.c.pointer(v.Stream))
		p.c.addMem(r, at(rdi, 8*(argStreams+argStream*v.Stream+1)))
	}
}

// readFirst reports whether the first pass over a row reads a stream for a fold.
func (c *compiler) readFirst(i int) bool {
	for _, v := range c.p.Values {
		if v.Kind == Fold && v.Phase == 1 && c.reaches(v.In[0], i) {
			return true
		}
	}
	return false
}

func (c *compiler) reaches(from, to int) bool {
	if from == to {
		return true
	}
	for _, x := range c.p.Values[from].In {
		if c.p.Values[from].Kind != Fold && c.reaches(x, to) {
			return true
		}
	}
	return false
}
