package ptx

import "fmt"

// A product is computed in tiles. A pair of units, each with its own rows, shares the columns: either fetches
// half of the right side's part for both. In each unit one thread fetches parts of both sides into a ring in
// the unit's memory, and two groups of 128 threads multiply them, 64 rows each; what follows the product is
// computed while the next tile's parts are on their way.
const (
	tileRows, tileCols, tileDepth = 128, 256, 64
	groupRows                     = 64
	threads                       = 384
	// Units is those of a large device; tiles are handed out to them in turn, so that fewer would do, too.
	Units = 132
	// squareSide is how many pairs of tiles, one below the other, are computed side by side.
	squareSide = 8
	// slots is how many parts of both sides a ring holds.
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

// fits reports whether there are kernels for a product.
func fits(rows, cols, depth int) bool {
	return rows > 0 && cols > 0 && depth > 0 && rows%(2*tileRows) == 0 && cols%tileCols == 0 &&
		depth%(slots*tileDepth) == 0 && rows < 1<<31/max(cols, depth)
}

// share returns the share of a large device's units that are at work, on the average, when all tiles of a
// product are handed out to them.
func share(rows, cols int) float64 {
	const pairs = Units / 2
	tiles := rows / (2 * tileRows) * (cols / tileCols)
	return float64(tiles) / float64((tiles+pairs-1)/pairs*pairs)
}

// Kernel is a kernel as it is called.
type Kernel struct {
	Name, Text string
	// Blocks is how many groups of threads run, Threads how many each has; Shared is the bytes of its unit's
	// memory that a group wants.
	Blocks, Threads, Shared int
	// Scratch is the bytes of memory that the kernel wants for itself: if there are any, its last parameter is a
	// pointer to them.
	Scratch int
}

// product is a kernel that computes one.
type product struct {
	code
	rows, cols, depth int
	// turned is that the right side's rows are those of the depth, not those of the results.
	turned bool
	// maps describes what is fetched: the left side, the right side, and more.
	maps []tensorMap

	tid, lane, warp, rank, base, scratch reg
}

// newProduct starts a kernel whose first two parameters are both sides.
func newProduct(rows, cols, depth int, rightTurned bool) *product {
	p := &product{rows: rows, cols: cols, depth: depth, turned: rightTurned}
	p.maps = []tensorMap{{0, rows, depth, tileRows}, {1, cols, depth, tileCols / 2}}
	if rightTurned {
		p.maps[1] = tensorMap{1, depth, cols, tileDepth}
	}
	return p
}

// plan is what a kernel does besides the product.
type plan struct {
	name string
	// arrays is how many the kernel is given.
	arrays int
	// right is where the half of the right side begins that this unit fetches for a column of tiles; nil is
	// where the column does.
	right func(col reg) reg
	// tail fetches what the end of a tile reads, a round of the ring; nil if nothing.
	tail func(row, col, phase reg)
	// setup computes what all tiles need, finish what follows a tile's product, whose sums it is given.
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
	// A unit stays until the other one has sent it all.
	p.meet()
	text := p.entry(plan.name, plan.arrays+1,
		fmt.Sprintf(".maxntid %d, 1, 1\n.minnctapersm 1\n.explicitcluster\n.reqnctapercluster 2, 1, 1", threads))
	maps := len(p.maps) * mapBytes
	return Kernel{Name: plan.name, Text: text, Blocks: Units, Threads: threads, Shared: mapsAt + maps,
		Scratch: Units * maps}
}

// begin sets up the ring's barriers and the maps.
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
		// A slot is full when its bytes are there, and empty when both groups of both units have done with it.
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

// pointer returns a parameter.
func (p *product) pointer(i int) reg {
	return p.u64("cvta.to.global.u64", p.u64("ld.param.u64", fmt.Sprintf("[p%d]", i)))
}

// meet lets the threads of both units wait for each other, warpSync those of a warp.
func (p *product) meet() {
	p.do("barrier.cluster.arrive.release")
	p.do("barrier.cluster.wait.acquire")
}

func (p *product) warpSync() { p.do("bar.warp.sync", "0xffffffff") }

// each runs body for this pair's tiles, by the first row of the unit's tile and the number of its column.
// Tiles that are computed at the same time are in a square, so that they find each other's parts in the
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

// wait waits for a barrier's phase.
func (p *product) wait(bytes int, phase reg) {
	again, done := p.label(), p.label()
	p.mark(again)
	p.when(p.pred("mbarrier.try_wait.parity.shared::cta.b64", at(p.base, bytes), phase), "bra", done)
	p.do("bra", again)
	p.mark(done)
}
