package ptx

import "fmt"

// A product is computed in tiles. A cluster of two blocks, each with its own rows, shares the columns: each
// fetches half of the right operand's part for both. In each block one producer thread fetches parts of both
// operands into a ring buffer in shared memory, and two warpgroups of 128 threads multiply them, 64 rows
// each. The epilogue of a tile is computed while the next tile's parts are in flight.
const (
	tileRows, tileCols, tileDepth = 128, 256, 64
	groupRows                     = 64
	threads                       = 384
	// Units is the number of multiprocessors (SMs) of a large device; tiles are assigned in turn, so that fewer
	// work, too.
	Units = 132
	// squareSide is the number of vertically adjacent pairs of tiles that are computed at the same time.
	squareSide = 8
	// slots is the number of parts of both operands that a ring buffer holds.
	slots      = 4
	leftBytes  = tileRows * tileDepth * 2
	rightBytes = tileCols * tileDepth * 2
	boxBytes   = 64 * 64 * 2

	rightAt   = slots * leftBytes
	placesAt  = rightAt + slots*rightBytes
	warpBytes = 16 * 128 * 2
	fullAt    = placesAt + 8*warpBytes
	emptyAt   = fullAt + 8*slots
	mapsAt    = fullAt + 128
	mapBytes  = 128
)

// fits reports whether kernels exist for a product of these sizes.
func fits(rows, cols, depth int) bool {
	return rows > 0 && cols > 0 && depth > 0 && rows%(2*tileRows) == 0 && cols%tileCols == 0 &&
		depth%(slots*tileDepth) == 0 && rows < 1<<31/max(cols, depth)
}

// share returns the average share of a large device's SMs that are busy when all tiles of a product are
// assigned to them.
func share(rows, cols int) float64 {
	const pairs = Units / 2
	tiles := rows / (2 * tileRows) * (cols / tileCols)
	return float64(tiles) / float64((tiles+pairs-1)/pairs*pairs)
}

// Kernel is a kernel with its launch parameters.
type Kernel struct {
	Name, Text string
	// Blocks is the number of thread blocks, Threads the threads of each, Shared the bytes of dynamic shared
	// memory of a block.
	Blocks, Threads, Shared int
	// Scratch is the bytes of global memory that the kernel needs for itself: if not 0, its last parameter is a
	// pointer to it.
	Scratch int
}

// product is a kernel for a product being written.
type product struct {
	code
	rows, cols, depth int
	// transposed reports that the right operand is transposed: its rows are those of the depth.
	transposed bool
	// maps are the tensor maps: of the left operand, the right operand, and more.
	maps []tensorMap

	tid, lane, warp, rank, base, scratch reg
}

// newProduct starts a kernel whose first two parameters are the operands.
func newProduct(rows, cols, depth int, rightTurned bool) *product {
	p := &product{rows: rows, cols: cols, depth: depth, transposed: rightTurned}
	p.maps = []tensorMap{{0, rows, depth, tileRows}, {1, cols, depth, tileCols / 2}}
	if rightTurned {
		p.maps[1] = tensorMap{1, depth, cols, tileDepth}
	}
	return p
}

// plan is the parts of a kernel besides the product.
type plan struct {
	name string
	// arrays is the number of arrays that the kernel is given.
	arrays int
	// right returns where the half of the right operand begins that this block fetches for a column of tiles;
	// nil means where the column begins.
	right func(col reg) reg
	// tail fetches what the epilogue of a tile reads, one round of the ring; nil if nothing.
	tail func(row, col, phase reg)
	// setup computes what all tiles need, finish is the epilogue of a tile, given its sums.
	setup  func()
	finish func(g grouped, row, col, phase reg, sums []reg)
}

// kernel returns the whole kernel.
func (p *product) kernel(plan plan) Kernel {
	p.begin(plan.arrays)
	fetching, done := p.label(), p.label()
	p.when(p.pred("setp.lt.u32", p.warp, 4), "bra", fetching)
	p.multiply(plan)
	p.do("bra", done)
	p.mark(fetching)
	p.fetch(plan)
	p.mark(done)
	// A block must not exit before the other one has sent it everything.
	p.meet()
	text := p.entry(plan.name, plan.arrays+1,
		fmt.Sprintf(".maxntid %d, 1, 1\n.minnctapersm 1\n.explicitcluster\n.reqnctapercluster 2, 1, 1", threads))
	maps := len(p.maps) * mapBytes
	return Kernel{Name: plan.name, Text: text, Blocks: Units, Threads: threads, Shared: mapsAt + maps,
		Scratch: Units * maps}
}

// begin initializes the ring's barriers and the tensor maps.
func (p *product) begin(arrays int) {
	p.tid = p.u32("mov.u32", "%tid.x")
	p.lane = p.u32("and.b32", p.tid, 31)
	p.warp = p.u32("shr.u32", p.tid, 5)
	p.rank = p.u32("mov.u32", "%cluster_ctarank")
	p.base = p.u32("mov.u32", "memory")
	unit := p.u64("mul.wide.u32", p.u32("mov.u32", "%ctaid.x"), len(p.maps)*mapBytes)
	p.scratch = p.u64("add.u64", p.pointer(arrays), unit)
	rest, ready := p.label(), p.label()
	p.when(p.pred("setp.ne.u32", p.warp, 0), "bra", ready)
	p.when(p.pred("setp.ne.u32", p.lane, 0), "bra", rest)
	for s := range slots {
		// A slot is full when its bytes have arrived, and empty when both warpgroups of both blocks have released
		// it.
		p.do("mbarrier.init.shared::cta.b64", at(p.base, fullAt+8*s), 1)
		p.do("mbarrier.init.shared::cta.b64", at(p.base, emptyAt+8*s), 4)
	}
	p.do("fence.mbarrier_init.release.cluster")
	p.mark(rest)
	p.warpSync()
	for i, m := range p.maps {
		m.write(p, mapsAt+i*mapBytes, i*mapBytes)
	}
	p.mark(ready)
	p.meet()
}

// pointer loads a parameter.
func (p *product) pointer(i int) reg {
	return p.u64("cvta.to.global.u64", p.u64("ld.param.u64", fmt.Sprintf("[p%d]", i)))
}

// meet emits a barrier of both blocks' threads, warpSync one of a warp's.
func (p *product) meet() {
	p.do("barrier.cluster.arrive.release")
	p.do("barrier.cluster.wait.acquire")
}

func (p *product) warpSync() { p.do("bar.warp.sync", "0xffffffff") }

// each emits the loop over this cluster's tiles; body gets the first row of the block's tile and the index
// of its column. Tiles that are computed at the same time form a square, so that they share parts in the
// cache.
func (p *product) each(body func(row, col reg)) {
	across, down, high := p.cols/tileCols, p.rows/(2*tileRows), squareSide
	for down%high != 0 {
		high /= 2
	}
	tile := p.u32("shr.u32", p.u32("mov.u32", "%ctaid.x"), 1)
	again, done := p.label(), p.label()
	p.mark(again)
	p.when(p.pred("setp.ge.u32", tile, across*down), "bra", done)
	in := p.u32("rem.u32", tile, high*across)
	pair := p.u32("mad.lo.u32", p.u32("div.u32", tile, high*across), high, p.u32("rem.u32", in, high))
	row := p.u32("mul.lo.u32", p.u32("mad.lo.u32", pair, 2, p.rank), tileRows)
	body(row, p.u32("div.u32", in, high))
	p.do("add.u32", tile, tile, Units/2)
	p.do("bra", again)
	p.mark(done)
}

// wait waits for a phase of a barrier.
func (p *product) wait(bytes int, phase reg) {
	again, done := p.label(), p.label()
	p.mark(again)
	p.when(p.pred("mbarrier.try_wait.parity.shared::cta.b64", at(p.base, bytes), phase), "bra", done)
	p.do("bra", again)
	p.mark(done)
}
