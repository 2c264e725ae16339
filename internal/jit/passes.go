package jit

// pinned lists the general registers that hold stream pointers during a pass.
var pinned = []int{rbx, r8, r9, r10, r11, r12, r15}

// pass is one loop over the columns of a row.
type pass struct {
	c     *compiler
	steps []inst
	folds []fold
	reg   map[int]int // of streams
	lines int         // unrolled steps
	woven int         // vectors whose instructions are interleaved
	first int         // vector registers from here on are accumulators
	limit int         // those from here on hold values that are constant within a row
	// constants and rows map such values, by their bits and by value, to registers.
	constants map[uint64]int
	rows      map[int]int
	fetches   bool         // rows of streams are prefetched
	ahead     []int        // general registers that point to the next row of streams
	written   []int        // those that point to this row of streams that later passes write
	loaded    map[int]bool // virtual registers that are a constant's register
	hoisted   bool         // constants are loaded before the first row
	used      int          // registers that a step uses
	slots     map[int]int  // virtual registers of row values, by value
}

// fold is a fold with its registers: four accumulators, and one that records NaN for a maximum or minimum.
type fold struct {
	value int
	acc   [4]int
	seen  int
}

// accumulators is the number of partial sums, chosen by an element's position, as in kernel.Sum.
const accumulators = 4

// plainLines is the number of vectors of an iteration of a loop without folds.
const plainLines = 2

// passes generates the passes of a phase over a row: as many as its folds need registers for, the last one
// with the stores.
func (c *compiler) passes(phase int) {
	var folds []int
	for i, v := range c.p.Values {
		if v.Kind == Fold && v.Phase == phase+1 {
			folds = append(folds, i)
		}
	}
	room := 8
	if c.wide {
		room = 20
	}
	for {
		p := &pass{c: c, reg: map[int]int{}}
		next := 15
		if c.wide {
			next = 31
		}
		used := 0
		for len(folds) > 0 {
			f, need := fold{value: folds[0], seen: -1}, accumulators
			if c.p.Values[folds[0]].Fold != 0 {
				need++
			}
			if used+need > room {
				break
			}
			for k := range f.acc {
				f.acc[k] = next - k
			}
			if need > accumulators {
				f.seen = next - accumulators
			}
			next, used, folds = next-need, used+need, folds[1:]
			p.folds = append(p.folds, f)
		}
		p.first = next + 1
		p.lines = plainLines
		if len(p.folds) > 0 {
			p.lines = accumulators
		}
		p.plan(phase, len(folds) == 0)
		p.fetches = phase == c.fetching && len(folds) == 0
		p.fix()
		p.emit()
		if len(folds) == 0 {
			return
		}
	}
}

// emit generates the pass.
func (p *pass) emit() {
	if len(p.steps) == 0 {
		return
	}
	c := p.c
	p.pin()
	p.loadFixed()
	c.byte(0x31, 0xC9) // xor ecx, ecx
	p.begin(false)
	full := 0
	if sums := p.sums(); sums && c.p.Cols > leaf {
		full = c.p.Cols / leaf * leaf
		p.leaves(full)
	}
	if full < c.p.Cols {
		p.columns(full, c.p.Cols)
		p.endLeaf(full / leaf)
	}
	p.end()
}

// sums reports whether any fold is a sum.
func (p *pass) sums() bool {
	for _, f := range p.folds {
		if p.c.p.Values[f.value].Fold == 0 {
			return true
		}
	}
	return false
}

// begin clears the accumulators of sums and, unless leafOnly is set, all others.
func (p *pass) begin(leafOnly bool) {
	c := p.c
	for _, f := range p.folds {
		if how := c.p.Values[f.value].Fold; how != 0 {
			if leafOnly {
				continue
			}
			for _, r := range f.acc {
				c.loadConst(r, c.p.float(extreme(how)))
			}
			c.zero(f.seen)
			continue
		}
		for _, r := range f.acc {
			c.zero(r)
		}
	}
}

// leaves processes the whole leaves of a long row and stores the sum of each.
func (p *pass) leaves(full int) {
	c := p.c
	c.movImm(rax, leaf)
	c.move(r13, rax)
	top := len(c.code)
	inner := len(c.code)
	p.unrolled()
	c.addImm(rcx, int32(p.lines*c.lanes))
	c.cmp(rcx, r13)
	c.jump(0xC, inner)
	c.move(rax, rcx)
	c.shr(rax, 12)
	for _, f := range p.folds {
		if c.p.Values[f.value].Fold == 0 {
			c.total(f.acc, vaddps)
			c.rm(vmovssTo, form{imm: -1}, 0, 0, mem{base: rdx, index: rax, scale: c.size,
				disp: int32(c.leafBase() + f.value*slotBytes - c.size)})
		}
	}
	p.begin(true)
	c.addImm(r13, leaf)
	c.cmpImm(rcx, int32(full))
	c.jump(0xC, top)
}

// columns processes columns lo, where CX is, to hi: unrolled, then vector by vector, then the remainder.
func (p *pass) columns(lo, hi int) {
	c := p.c
	chunk := p.lines * c.lanes
	trips := (hi - lo) / chunk
	if trips > 0 {
		top := len(c.code)
		p.unrolled()
		c.addImm(rcx, int32(chunk))
		if trips > 1 {
			c.cmpImm(rcx, int32(lo+trips*chunk))
			c.jump(0xC, top)
		}
	}
	rest := (hi - lo) % chunk
	for k := range rest / c.lanes {
		p.step(0, k*c.lanes, false)
	}
	if rest%c.lanes > 0 {
		p.step(0, rest/c.lanes*c.lanes, true)
	}
}

// endLeaf stores the sums of the last leaf, if there are several.
func (p *pass) endLeaf(number int) {
	c := p.c
	if number == 0 {
		return
	}
	for _, f := range p.folds {
		if c.p.Values[f.value].Fold == 0 {
			c.total(f.acc, vaddps)
			c.rm(vmovssTo, form{imm: -1}, 0, 0, at(rdx, c.leafBase()+f.value*slotBytes+c.size*number))
		}
	}
}

// end reduces the accumulators to row values.
func (p *pass) end() {
	c := p.c
	for _, f := range p.folds {
		v := c.p.Values[f.value]
		switch {
		case v.Fold != 0:
			c.across(f.seen, vaddps)
			c.rm(vmovssTo, form{imm: -1}, 0, 0, at(rdx, c.tmpSlot()))
			op := vmaxps
			if v.Fold == foldMin {
				op = vminps
			}
			c.total(f.acc, op)
			c.rm(vaddss, form{imm: -1}, 0, 0, at(rdx, c.tmpSlot()))
		case c.p.Cols > leaf:
			c.tree((c.p.Cols+leaf-1)/leaf, c.leafBase()+f.value*slotBytes)
		default:
			c.total(f.acc, vaddps)
		}
		full := c.full()
		c.rr(vbroadcastss, full, 0, 0, 0)
		if v.Count != 0 {
			c.with(vdivps, 0, 0, c.constant(c.p.float(float64(v.Count))))
		}
		c.rm(vmovupsTo, full, 0, 0, c.slot(f.value))
	}
}

// total reduces four accumulators by halves and then their lanes, into the low lane of register 0.
func (c *compiler) total(acc [4]int, op ins) {
	for n := len(acc); n > 1; n /= 2 {
		for i := range n / 2 {
			c.rr(op, c.full(), acc[i], acc[i], acc[i+n/2])
		}
	}
	c.across(acc[0], op)
}

// across reduces the lanes of a register by halves into the low lane of register 0; it uses register 1.
func (c *compiler) across(r int, op ins) {
	half := form{length: 1, evex: c.wide, imm: -1}
	if c.wide {
		c.rr(vextractf64, form{length: 2, evex: true, imm: 1}, r, 0, 0)
		c.rr(op, half, 0, r, 0)
	} else {
		c.rr(vmovups, half, 0, 0, r)
	}
	x := form{imm: -1}
	c.rr(vextractf128, form{length: 1, imm: 1}, 0, 0, 1)
	c.rr(op, x, 0, 0, 1)
	shuffles := []int{0x4e, 0xb1}
	if c.p.Double {
		shuffles = []int{1}
	}
	for _, shuffle := range shuffles {
		c.rr(vpermilps, form{imm: shuffle}, 1, 0, 0)
		c.rr(op, x, 0, 0, 1)
	}
}

// tree adds the sums of n consecutive leaves in the order of kernel.Tree, into the low lane of register
// 0.
func (c *compiler) tree(n, base int) {
	x := form{imm: -1}
	leafAt := func(i int) mem { return at(rdx, base+c.size*i) }
	var partial []int // leaves whose memory holds sums of subtrees
	join := func(left int) {
		c.rm(vmovss, x, 1, 0, leafAt(left))
		c.rr(vaddss, x, 0, 1, 0)
	}
	for i := range n {
		c.rm(vmovss, x, 0, 0, leafAt(i))
		for bit := i; bit&1 == 1; bit >>= 1 {
			join(partial[len(partial)-1])
			partial = partial[:len(partial)-1]
		}
		partial = append(partial, i)
		c.rm(vmovssTo, x, 0, 0, leafAt(i))
	}
	c.rm(vmovss, x, 0, 0, leafAt(partial[len(partial)-1]))
	for k := len(partial) - 2; k >= 0; k-- {
		join(partial[k])
	}
}
