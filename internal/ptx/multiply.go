package ptx

import "fmt"

// grouped holds a thread's registers about its warpgroup.
type grouped struct {
	// index is the number of the warpgroup, thread the thread's number in it.
	index, thread reg
	// barrier is the named barrier of the warpgroup's threads.
	barrier reg
	// firstRow is the warp's first row in the warpgroup's tile.
	firstRow reg
	// chunk holds the addresses of the thread's four parts of a row in a box of 64 columns, piece those of its
	// eight in the warp's own buffer, line where it reads them.
	chunk [4]reg
	piece [8]reg
	line  [4]reg
	// free is the address of the ring's empty barriers, in the block chosen by the thread; tells reports whether
	// the thread arrives at them.
	free, tells reg
}

// multiply emits the code of the two consumer warpgroups.
func (p *product) multiply(plan plan) {
	p.do("setmaxnreg.inc.sync.aligned.u32", 232)
	g := p.grouped()
	plan.setup()
	sums := make([]reg, tileCols/2)
	for i := range sums {
		sums[i] = p.reg("f")
	}
	left := p.matrix(p.u32("mad.lo.u32", g.index, leftBytes/2, p.base), 0)
	right := p.matrix(p.u32("add.u32", p.base, rightAt), boxBytes)
	phase := p.u32("mov.u32", 0)
	p.each(func(row, col reg) {
		p.sum(g, sums, left, right, phase)
		plan.finish(g, row, col, phase, sums)
	})
}

func (p *product) grouped() grouped {
	g := grouped{thread: p.u32("and.b32", p.tid, 127)}
	// The shuffle makes the compiler treat the number as uniform across the warp.
	g.index = p.u32("shfl.sync.idx.b32", p.u32("sub.u32", p.u32("shr.u32", p.tid, 7), 1), 0, 31, "0xffffffff")
	g.barrier = p.u32("add.u32", g.index, 1)
	g.tells = p.pred("setp.lt.u32", g.thread, 2)
	g.free = p.u32("mapa.shared::cluster.u32", p.u32("add.u32", p.base, emptyAt), p.u32("and.b32", g.thread, 1))
	warp := p.u32("shr.u32", g.thread, 5)
	g.firstRow = p.u32("shl.b32", warp, 4)
	number := p.u32("mad.lo.u32", g.index, 4, warp)
	p.places(&g, p.u32("add.u32", p.u32("mad.lo.u32", number, warpBytes, p.base), placesAt))
	return g
}

// places computes the addresses of a thread's parts in a move of matrices by a warp: 16 rows of 16 numbers,
// where each thread addresses 8 numbers of a row. Parts of 16 bytes are swizzled to avoid bank conflicts, as
// TMA copies boxes.
func (p *product) places(g *grouped, own reg) {
	seven := p.u32("and.b32", p.lane, 7)
	row := p.u32("add.u32", p.u32("and.b32", p.lane, 8), seven)
	boxRow := p.u32("shl.b32", p.u32("add.u32", row, g.firstRow), 7)
	ownRow := p.u32("mad.lo.u32", row, 256, own)
	side := p.u32("shr.u32", p.lane, 4)
	for i := range g.piece {
		bytes := p.u32("shl.b32", p.u32("xor.b32", p.u32("add.u32", side, 2*i), seven), 4)
		g.piece[i] = p.u32("add.u32", ownRow, bytes)
		if i < len(g.chunk) {
			g.chunk[i] = p.u32("add.u32", boxRow, bytes)
		}
	}
	for i := range g.line {
		row := p.u32("add.u32", side, 2*i)
		bytes := p.u32("shl.b32", p.u32("xor.b32", p.u32("and.b32", p.lane, 15), row), 4)
		g.line[i] = p.u32("add.u32", p.u32("mad.lo.u32", row, 256, own), bytes)
	}
}

// matrix returns the wgmma descriptor of an operand in shared memory, in boxes with rows of 128 bytes, in
// groups of 8 rows with swizzled parts of 16 bytes; beside is the distance between boxes, for an operand
// whose rows are the depth.
func (p *product) matrix(address reg, beside int) reg {
	const swizzled, eightRows = 1 << 62, 8 * 128
	// The address within the cluster includes the block's rank, which the descriptor must not contain.
	short := p.u32("shr.u32", p.u32("and.b32", address, 1<<18-1), 4)
	return p.u64("or.b64", p.u64("cvt.u64.u32", short),
		fmt.Sprintf("0x%x", swizzled|eightRows>>4<<32|uint64(beside>>4)<<16))
}

// sum emits the products of a tile's parts as they arrive.
func (p *product) sum(g grouped, sums []reg, left, right, phase reg) {
	// An advance of 16 in depth is this many bytes of a row, or of this many rows.
	step, side := 32, 0
	if p.transposed {
		step, side = 16*128, 1
	}
	more := p.reg("p")
	p.do("setp.ne.u32", more, 0, 0)
	rounds := p.u32("mov.u32", 0)
	again := p.label()
	p.mark(again)
	for s := range slots {
		p.wait(fullAt+8*s, phase)
		p.do("wgmma.fence.sync.aligned")
		for k := range tileDepth / 16 {
			a := p.u64("add.u64", left, (s*leftBytes+32*k)>>4)
			b := p.u64("add.u64", right, (s*rightBytes+step*k)>>4)
			p.do("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", group(sums...), a, b, more, 1, 1, 0, side)
			if s == 0 && k == 0 {
				p.do("setp.eq.u32", more, 0, 0)
			}
		}
		p.do("wgmma.commit_group.sync.aligned")
		p.do("wgmma.wait_group.sync.aligned", 1)
		tells := g.tells
		if s == 0 {
			tells = p.pred("setp.ne.and.u32", rounds, 0, g.tells)
		}
		p.release(g, tells, (s+slots-1)%slots)
	}
	p.do("xor.b32", phase, phase, 1)
	p.do("add.u32", rounds, rounds, 1)
	p.when(p.pred("setp.lt.u32", rounds, p.depth/(slots*tileDepth)), "bra", again)
	p.do("wgmma.wait_group.sync.aligned", 0)
	p.release(g, g.tells, slots-1)
}

// release signals the producer threads of both blocks that the warpgroup has finished with a slot.
func (p *product) release(g grouped, tells reg, slot int) {
	p.when(tells, "mbarrier.arrive.shared::cluster.b64", "_", at(g.free, 8*slot))
}
