package ptx

// ringBarrier is an mbarrier in shared memory: a phase is complete when all threads have arrived and all
// announced bytes have been copied.
type ringBarrier struct {
	// at is its offset in shared memory.
	at             uint32
	count, pending uint64
	// bytes is the announced bytes that have not arrived; it is negative if bytes arrive before they are
	// announced.
	bytes   int
	phase   uint64
	waiting []*thread
	// by is the thread that initialized it, open that the other block and copies may see this.
	by   *thread
	open bool
}

// maxPending is the most threads, and bytes, that a barrier can count.
const maxPending = 1<<20 - 1

func makeInit(d *decoder) {
	place, count := d.place("u32"), d.number("u32")
	if count < 1 || count > maxPending {
		d.fail("%s: got %d threads: want 1 to %d", d.op, count, maxPending)
	}
	d.then(func(t *thread) {
		at, ok := t.within(uint32(t.address(place)), 8, 8)
		if !ok {
			return
		}
		t.unit.spares(t, at, 8)
		t.unit.barriers = append(t.unit.barriers, &ringBarrier{at: at, count: count, pending: count, by: t})
	})
}

// makeInitFence decodes the fence that makes a thread's barrier initializations visible.
func makeInitFence(d *decoder) {
	d.then(func(t *thread) {
		for _, b := range t.unit.barriers {
			b.open = b.open || b.by == t
		}
	})
}

// barrier returns the barrier at an address of the block's shared memory or, with either, of both blocks'.
func (t *thread) barrier(p place, either bool) *ringBarrier {
	address := uint32(t.address(p))
	rank, at := offset(address)
	if rank >= pairUnits || rank != t.unit.rank && !either {
		t.fault("address %#x: want one of the block's own memory", address)
		return nil
	}
	return t.barrierOf(t.unit.pair.units[rank], at)
}

func (t *thread) barrierOf(u *unit, at uint32) *ringBarrier {
	for _, b := range u.barriers {
		if b.at != at {
			continue
		}
		if u.living == 0 {
			t.fault("block %d has ended", u.pair.first+u.rank)
		}
		if !b.open {
			t.fault("the barrier was set up, but not told to others: want fence.mbarrier_init behind it")
		}
		return b
	}
	t.fault("no barrier was set up at byte %d of the memory of block %d", int32(at), u.pair.first+u.rank)
	return nil
}

// makeExpect decodes the arrival of a thread that announces bytes.
func makeExpect(d *decoder) {
	d.word("_")
	place, bytes := d.place("u32"), d.take("u32")
	d.then(func(t *thread) {
		if b := t.barrier(place, false); b != nil {
			b.bytes += int(t.u32(bytes))
			b.arrive(t)
		}
	})
}

func makeArrive(d *decoder) {
	d.word("_")
	place := d.place("u32")
	d.then(func(t *thread) {
		if b := t.barrier(place, true); b != nil {
			b.arrive(t)
		}
	})
}

func (b *ringBarrier) arrive(t *thread) {
	if b.pending == 0 {
		t.fault("all %d have arrived in this phase of the barrier: want its %d bytes to come before", b.count,
			b.bytes)
		return
	}
	b.pending--
	b.check(t)
}

// check completes a phase if nothing is pending.
func (b *ringBarrier) check(t *thread) {
	if b.bytes > maxPending || b.bytes < -maxPending {
		t.fault("%d bytes are to come: want up to %d", b.bytes, maxPending)
	}
	if b.pending > 0 || b.bytes != 0 {
		return
	}
	b.phase++
	b.pending = b.count
	t.unit.pair.wake(b.waiting...)
	b.waiting = b.waiting[:0]
}

// makeTryWait decodes a test of a phase. A thread's first test is answered at once, so that the code must
// repeat it; the thread then sleeps until the answer changes.
func makeTryWait(d *decoder) {
	out, place, parity := d.out("pred"), d.place("u32"), d.take("u32")
	d.in.run = func(t *thread) outcome {
		b := t.barrier(place, false)
		if b == nil {
			return goOn
		}
		want := t.get(parity)
		if want > 1 {
			t.fault("phase %d: want 0 or 1", want)
		}
		done := b.phase&1 != want
		if !done && t.missed == b && t.missedPhase == b.phase {
			b.waiting = append(b.waiting, t)
			return again
		}
		t.missed, t.missedPhase = b, b.phase
		t.setIf(out, done)
		return goOn
	}
}

// namedBarrier is one of a block's numbered barriers.
type namedBarrier struct {
	count   uint32
	waiting []*thread
}

func makeNamedBarrier(d *decoder) {
	number, count := d.take("u32"), d.take("u32")
	d.in.run = func(t *thread) outcome {
		i, n := t.u32(number), t.u32(count)
		if int(i) >= len(t.unit.named) || n == 0 || n%warpThreads != 0 || int(n) > len(t.unit.threads) {
			t.fault("barrier %d of %d threads: want 0 to %d, and whole warps of the block", i, n, len(t.unit.named)-1)
			return goOn
		}
		b := &t.unit.named[i]
		if len(b.waiting) > 0 && b.count != n {
			t.fault("barrier %d of %d threads: want %d as others say", i, n, b.count)
		}
		b.count = n
		if len(b.waiting)+1 < int(n) {
			b.waiting = append(b.waiting, t)
			return parked
		}
		t.unit.pair.wake(b.waiting...)
		b.waiting = nil
		return goOn
	}
}

// wholeWarp decodes the mask of a warp's threads, which must be all.
func (d *decoder) wholeWarp() {
	if mask := d.number("b32"); mask != 1<<warpThreads-1 {
		d.fail("%s: got threads %#x: want all", d.op, mask)
	}
}

func makeWarpSync(d *decoder) {
	d.wholeWarp()
	d.together(warpThreads, func(*crew) {})
}

// makePairArrive and makePairWait decode the two halves of the cluster barrier.
func makePairArrive(d *decoder) {
	d.then(func(t *thread) {
		p := t.unit.pair
		if t.arrived {
			t.fault("the thread has arrived before: want it to wait in between")
		}
		t.arrived, t.round = true, p.round
		p.arrived++
		p.pass()
	})
}

func makePairWait(d *decoder) {
	d.in.run = func(t *thread) outcome {
		p := t.unit.pair
		if !t.arrived {
			t.fault("the thread has not arrived: want it to before it waits")
		}
		if t.round == p.round {
			p.waiting = append(p.waiting, t)
			return again
		}
		t.arrived = false
		return goOn
	}
}

// pass opens the cluster barrier if all threads that have not exited have arrived.
func (p *pair) pass() {
	if p.arrived == 0 || p.arrived < p.living {
		return
	}
	p.arrived = 0
	p.round++
	p.wake(p.waiting...)
	p.waiting = nil
}
