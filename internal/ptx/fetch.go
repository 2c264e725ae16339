package ptx

// fetch emits the code of the producer thread, which fills the ring buffer.
func (p *product) fetch(plan plan) {
	p.do("setmaxnreg.dec.sync.aligned.u32", 40)
	done := p.label()
	p.when(p.pred("setp.ne.u32", p.tid, 0), "bra", done)
	for i := range p.maps {
		p.seen(i)
	}
	phase := p.u32("mov.u32", 1)
	// The right operand is read again for the following rows, so it should stay in the cache.
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

// rightPart fetches 128 rows of the right operand, or two boxes of its columns if it is transposed, from a
// depth on.
func (p *product) rightPart(to, second string, from, depth reg, slot int, c copying) {
	if !p.transposed {
		p.load(1, to, depth, from, slot, c)
		return
	}
	p.load(1, to, from, depth, slot, c)
	p.load(1, second, p.u32("add.u32", from, 64), depth, slot, c)
}

// half returns the beginning of the half of the right operand that this block of the cluster fetches.
func (p *product) half(plan plan, col reg) reg {
	if plan.right != nil {
		return plan.right(col)
	}
	return p.u32("mad.lo.u32", col, tileCols, p.u32("mul.lo.u32", p.rank, tileCols/2))
}

// expect waits until a slot is empty, and announces the number of bytes to its barrier.
func (p *product) expect(slot int, phase reg, bytes int) {
	p.wait(emptyAt+8*slot, phase)
	p.do("mbarrier.arrive.expect_tx.shared::cta.b64", "_", at(p.base, fullAt+8*slot), bytes)
}

// copying is the options of a copy: the mask of the blocks that receive it (multicast), if not only this one,
// and the cache policy, if any.
type copying struct{ units, policy reg }

// policy returns a register with a cache policy.
func (p *product) policy(name string) reg {
	return p.u64("createpolicy.fractional.L2::"+name+".b64", "0f3F800000")
}

// load emits the copy of a box of a tensor map to a slot, at the same address in each receiving block.
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
