package ptx

// fetch is what the thread does that fills the ring.
func (p *product) fetch(plan plan) {
	p.do("setmaxnreg.dec.sync.aligned.u32", 40)
	done := p.label()
	p.when(p.pred("setp.ne.u32", p.tid, 0), "bra", done)
	for i := range p.maps {
		p.seen(i)
	}
	phase := p.u32("mov.u32", 1)
	// The right side is read again for the rows that follow, so it is to stay in the cache.
	shared := copying{units: p.result("h", "mov.b16", []any{3}), policy: p.policy("evict_last")}
	to := p.u32("mad.lo.u32", p.rank, rightBytes/2, p.base)
	p.each(func(row, col reg) {
		right := p.half(plan, col)
		depth := p.u32("mov.u32", 0)
		again := p.label()
		p.mark(again)
		for s := range slots {
			p.expect(s, phase, leftBytes+rightBytes)
			p.load(0, at(p.base, s*leftBytes), depth, row, s, copying{})
			p.rightPart(at(to, rightAt+s*rightBytes), at(to, rightAt+s*rightBytes+boxBytes), right, depth, s, shared)
			p.do("add.u32", depth, depth, tileDepth)
		}
		p.do("xor.b32", phase, phase, 1)
		p.when(p.pred("setp.lt.u32", depth, p.depth), "bra", again)
		if plan.tail != nil {
			plan.tail(row, col, phase)
			p.do("xor.b32", phase, phase, 1)
		}
	})
	p.mark(done)
}

// rightPart fetches 128 rows of the right side, or two boxes of its columns if it is turned, from a depth on.
func (p *product) rightPart(to, second string, from, depth reg, slot int, c copying) {
	if !p.turned {
		p.load(1, to, depth, from, slot, c)
		return
	}
	p.load(1, to, from, depth, slot, c)
	p.load(1, second, p.u32("add.u32", from, 64), depth, slot, c)
}

// half returns where the half of the right side begins that this unit fetches.
func (p *product) half(plan plan, col reg) reg {
	if plan.right != nil {
		return plan.right(col)
	}
	return p.u32("mad.lo.u32", col, tileCols, p.u32("mul.lo.u32", p.rank, tileCols/2))
}

// expect waits until a slot is empty, and says how many bytes will come.
func (p *product) expect(slot int, phase reg, bytes int) {
	p.wait(emptyAt+8*slot, phase)
	p.do("mbarrier.arrive.expect_tx.shared::cta.b64", "_", at(p.base, fullAt+8*slot), bytes)
}

// copying is how a copy is done: the mask of the units that get it, if not only this one, and what the cache
// is told, if anything.
type copying struct{ units, policy reg }

// policy returns what a cache is told of data.
func (p *product) policy(name string) reg {
	return p.u64("createpolicy.fractional.L2::"+name+".b64", "0f3F800000")
}

// load fetches a box of a map for a slot: to the same place in each unit.
func (p *product) load(i int, to string, x, y reg, slot int, c copying) {
	op := "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
	args := []any{to, p.box(i, x, y), at(p.base, fullAt+8*slot)}
	if c.units != "" {
		op, args = op+".multicast::cluster", append(args, c.units)
	}
	if c.policy != "" {
		op, args = op+".L2::cache_hint", append(args, c.policy)
	}
	p.do(op, args...)
}
