package ptx

import "fmt"

// SkinnyProduct is a product of a few rows and weights, a row of weights for each result, as in a decoding
// step, where reading the weights takes nearly all the time. Products of the same rows are one kernel.
//
// A block computes the results of 16 rows of weights; its warps take turns along the depth. A thread
// copies 16 bytes of two rows of weights at a time to shared memory (cp.async), in a multi-stage pipeline,
// reads them back when they have arrived, with as many elements of one of the rows, and the warp
// multiplies them by 16 by 16 by 8 matrix instructions. The rows, if they fit, and the scales of integers
// are copied to shared memory as well. The order of the depth's elements in these matrices does not matter
// as long as both operands agree, so nothing is rearranged. Loads to registers go through the L1 cache,
// but XLA configures SMs with nearly all of it as shared memory, so few loads could be in flight.
type SkinnyProduct struct {
	Rows, Depth int
	// Cols is the number of results of each product.
	Cols []int
	// Bits is 16 for weights of bf16; 8 or 4 for integers in groups, each with a scale of bf16; a weight's value
	// is (q - middle)·scale.
	Bits, Group int
	// Gated reports that there are two products of one size, gate and up: the result is
	// silu(gate)·up.
	Gated bool
}

const (
	skinnyTile = 16 // rows of weights of a block
	skinnyRows = 16
	// skinnyWarps and skinnyRounds were the fastest on an H200 of 4 to 16 warps and 2 to 4 rounds.
	skinnyWarps = 8
	// skinnyRounds is the number of pipeline stages: rounds of the loop in flight at once.
	skinnyRounds = 2
	// skinnyRowBytes is the most bytes of rows that a block keeps in shared memory; more are read in place.
	skinnyRowBytes = 32 << 10
)

// step returns the elements of the depth that four threads read at once, 16 bytes of weights each.
func (q SkinnyProduct) step() int { return 4 * 16 * 8 / q.Bits }

// together returns the number of steps that a warp reads before it multiplies, so that enough bytes are in
// flight.
func (q SkinnyProduct) together() int {
	most := 4
	if q.Bits == 4 || q.Gated {
		most = 2
	}
	for (q.Depth/q.step())%most != 0 {
		most /= 2
	}
	return most
}

// Fits reports whether a kernel exists for these sizes.
func (q SkinnyProduct) Fits() bool {
	if q.Rows < 1 || q.Rows > skinnyRows || q.Depth < 1 || q.Depth%q.step() != 0 || len(q.Cols) == 0 ||
		q.Gated && (len(q.Cols) != 2 || q.Cols[0] != q.Cols[1]) {
		return false
	}
	for _, n := range q.Cols {
		if n < 1 || n%skinnyTile != 0 || n >= 1<<31/q.Depth {
			return false
		}
	}
	return q.Bits == 16 || (q.Bits == 8 || q.Bits == 4) && q.Group%(q.step()/4) == 0 && q.Group > 0 &&
		q.together()*q.step()%q.Group == 0
}

// skinny is the kernel being written.
type skinny struct {
	product
	SkinnyProduct
	// right is the number of products that a block computes: 1, or both of gate and up.
	right int
	// quad and place are the thread's index among those of a row of weights, and that row's index.
	quad, place reg
	// weights and scales are the addresses that the thread reads next, for each product.
	weights, scales []reg
	x               []reg
	// one, zero and excess are pairs of bf16: 1, -0, and the negative offset of 4-bit integers.
	one, zero, excess reg
	row               reg // the block's first row of weights
	// scaleFrom is the address from which the thread copies scales next, if copies holds and scales are staged.
	scaleFrom, copies reg
	out, cols         reg
}

// Kernel returns the kernel. Its arrays, of bf16: the rows; for each product the weights and, if these are
// integers, their scales; then the results, of each product or of both together.
func (q SkinnyProduct) Kernel() Kernel {
	s := &skinny{SkinnyProduct: q, right: 1}
	tiles := 0
	for _, n := range q.Cols {
		tiles += n / skinnyTile
	}
	if q.Gated {
		s.right, tiles = 2, tiles/2
	}
	blocks := tiles + tiles%2
	s.tid = s.u32("mov.u32", "%tid.x")
	s.lane = s.u32("and.b32", s.tid, 31)
	s.warp = s.u32("shr.u32", s.tid, 5)
	s.base = s.u32("mov.u32", "memory")
	s.quad, s.place = s.u32("and.b32", s.lane, 3), s.u32("shr.u32", s.lane, 2)
	s.start()
	sums := s.sum()
	s.finish(sums)
	name := fmt.Sprintf("skinny_product_%d_%dx%dx%d", q.Bits, q.Rows, skinnyTile*tiles, q.Depth)
	if q.Gated {
		name = "gated_" + name
	}
	text := s.entry(name, s.arrays(), fmt.Sprintf(".maxntid %d, 1, 1\n.minnctapersm 1", 32*skinnyWarps))
	return Kernel{Name: name, Text: text, Blocks: blocks, Threads: 32 * skinnyWarps,
		Shared: max(s.right*skinnyWarps*skinnyTile*s.columns()*4,
			s.rowsBytes()+skinnyWarps*skinnyRounds*s.roundBytes())}
}

// roundBytes returns the shared memory of a warp's weights in a round, followed by their scales.
func (s *skinny) roundBytes() int {
	bytes := s.right * s.together() * 2 * 32 * 16
	if s.stagedScales() > 0 {
		bytes += s.right * skinnyTile * 16
	}
	return bytes
}

// stagedScales returns the bytes of scales of a row of weights in a round, if they are copied with the
// weights; 0 if not.
func (s *skinny) stagedScales() int {
	if s.each() == 1 {
		return 0
	}
	if n := 2 * s.together() * s.step() / s.Group; n == 4 || n == 8 || n == 16 {
		return n
	}
	return 0
}

// rowStride returns the bytes between rows in shared memory: adjacent rows are in different banks.
func (s *skinny) rowStride() int { return 2*s.Depth + 64 }

// rowsBytes returns the shared memory for all rows, 0 if they are read in place.
func (s *skinny) rowsBytes() int {
	if n := s.Rows * s.rowStride(); n <= skinnyRowBytes {
		return n
	}
	return 0
}

// columns returns the columns of results in the matrices: those beyond the rows are unused.
func (s *skinny) columns() int { return (s.Rows + 7) / 8 * 8 }

// each returns the number of arrays of a product's weights.
func (s *skinny) each() int {
	if s.Bits == 16 {
		return 1
	}
	return 2
}

func (s *skinny) arrays() int { return 1 + s.each()*len(s.Cols) + len(s.Cols)/s.right }

// start computes the block's rows of weights.
func (s *skinny) start() {
	s.row, s.out, s.cols = s.reg("r"), s.reg("d"), s.reg("r")
	s.weights, s.scales = make([]reg, s.right), make([]reg, s.right)
	for i := range s.weights {
		s.weights[i], s.scales[i] = s.reg("d"), s.reg("d")
	}
	tile := s.u32("mov.u32", "%ctaid.x")
	found := s.label()
	first := 0
	for i := 0; i < len(s.Cols); i += s.right {
		next := s.label()
		last := first + s.Cols[i]/skinnyTile
		s.when(s.pred("setp.ge.u32", tile, last), "bra", next)
		s.do("mul.lo.u32", s.row, s.u32("sub.u32", tile, first), skinnyTile)
		s.do("mov.u32", s.cols, s.Cols[i])
		for j := range s.right {
			s.do("mov.u64", s.weights[j], s.pointer(1+s.each()*(i+j)))
			if s.each() == 2 {
				s.do("mov.u64", s.scales[j], s.pointer(2+s.each()*(i+j)))
			}
		}
		s.do("mov.u64", s.out, s.pointer(1+s.each()*len(s.Cols)+i/s.right))
		s.do("bra", found)
		s.mark(next)
		first = last
	}
	s.do("ret") // an extra block that makes their number even has no rows
	s.mark(found)
	s.places()
}

// places computes the addresses that the thread reads first.
func (s *skinny) places() {
	bytes, batch := s.Depth*s.Bits/8, s.together()*64
	row := s.u32("add.u32", s.row, s.place)
	at := s.u32("mad.lo.u32", s.quad, 16, s.u32("mul.lo.u32", s.warp, batch))
	for j := range s.right {
		s.do("add.u64", s.weights[j], s.weights[j], s.u64("cvt.u64.u32", at))
		s.do("mad.wide.u32", s.weights[j], row, bytes, s.weights[j])
		if s.each() == 2 && s.stagedScales() == 0 {
			groups := s.Depth / s.Group
			s.do("mad.wide.u32", s.scales[j], row, 2*groups, s.scales[j])
			s.do("mad.wide.u32", s.scales[j], s.warp, 2*s.together()*s.step()/s.Group, s.scales[j])
		}
	}
	if s.stagedScales() > 0 {
		s.scalePlaces()
	}
	x := s.pointer(0)
	own := s.u32("mad.lo.u32", s.quad, s.step()/2, s.u32("mul.lo.u32", s.warp, 2*s.together()*s.step()))
	for i := 0; i < s.columns(); i += 8 {
		row := s.u32("add.u32", s.place, i)
		if s.rowsBytes() > 0 {
			s.x = append(s.x, s.u32("mad.lo.u32", row, s.rowStride(), s.u32("add.u32", s.base, own)))
			continue
		}
		s.x = append(s.x, s.u64("mad.wide.u32", row, 2*s.Depth,
			s.u64("add.u64", x, s.u64("cvt.u64.u32", own))))
	}
}

// scalePlaces computes the address from which the thread copies scales: of one row of weights, for the lower
// half of the warp those of the first product, for the upper half of a second.
func (s *skinny) scalePlaces() {
	groups := s.Depth / s.Group
	row := s.u32("add.u32", s.row, s.u32("and.b32", s.lane, skinnyTile-1))
	from := s.u64("mov.u64", s.scales[0])
	s.copies = s.pred("setp.lt.u32", s.lane, s.right*skinnyTile)
	if s.right == 2 {
		s.when(s.pred("setp.ge.u32", s.lane, skinnyTile), "mov.u64", from, s.scales[1])
	}
	s.do("mad.wide.u32", from, row, 2*groups, from)
	s.do("mad.wide.u32", from, s.warp, s.stagedScales(), from)
	s.scaleFrom = from
}

// copyRows starts the copies of all rows to shared memory.
func (s *skinny) copyRows() {
	x := s.pointer(0)
	pieces, threads := s.Depth*2/16, 32*skinnyWarps
	for row := range s.Rows {
		for first := 0; first < pieces; first += threads {
			piece := s.u32("add.u32", s.tid, first)
			to := s.u32("mad.lo.u32", piece, 16, s.u32("add.u32", s.base, row*s.rowStride()))
			from := s.u64("mad.wide.u32", piece, 16, x)
			s.when(s.pred("setp.lt.u32", piece, pieces), "cp.async.cg.shared.global", at(to, 0),
				at(from, row*2*s.Depth), 16)
		}
	}
	s.do("cp.async.commit_group")
}

// skinnyLoop holds the registers that a round of the loop has read.
type skinnyLoop struct {
	// weights are by product, step and half of the rows, x by columns and step.
	weights [][][2][]reg
	scales  [][][2]reg
	x       [][][]reg
}

// sum emits the loop of products, and returns sums by product and columns.
func (s *skinny) sum() [][][]reg {
	sums := make([][][]reg, s.right)
	for j := range sums {
		for range s.x {
			var four []reg
			for range 4 {
				four = append(four, s.f32("mov.b32", 0))
			}
			sums[j] = append(sums[j], four)
		}
	}
	s.one, s.zero = s.u32("mov.b32", "0x3f803f80"), s.u32("mov.b32", "0x80008000")
	s.excess = s.u32("mov.b32", "0xc308c308")
	read := s.registers()
	groups := s.groupPlaces()
	batch := s.u32("mov.u32", s.warp)
	batches := s.Depth / s.step() / s.together()
	own := s.u32("mad.lo.u32", s.lane, 16, s.base)
	own = s.u32("mad.lo.u32", s.warp, skinnyRounds*s.roundBytes(), own)
	if s.rowsBytes() > 0 {
		own = s.u32("add.u32", own, s.rowsBytes())
		s.copyRows()
	}
	ahead := s.u32("mov.u32", s.warp)
	to, from := s.u32("mov.u32", own), s.u32("mov.u32", own)
	end := s.u32("add.u32", own, skinnyRounds*s.roundBytes())
	for range skinnyRounds - 1 {
		s.copy(ahead, batches, to, own, end)
	}
	if s.rowsBytes() > 0 {
		s.do("cp.async.wait_group", skinnyRounds-1)
		s.do("bar.sync", 0, 32*skinnyWarps)
	}
	again, done := s.label(), s.label()
	s.mark(again)
	s.when(s.pred("setp.ge.u32", batch, batches), "bra", done)
	s.copy(ahead, batches, to, own, end)
	s.read(read, groups)
	s.do("cp.async.wait_group", skinnyRounds-1)
	s.fetch(read, from)
	if s.stagedScales() > 0 {
		s.warpSync()
		s.fetchScales(read, groups, from)
	}
	s.turn(from, own, end)
	for k := range s.together() {
		s.multiply(read, k, sums)
	}
	s.advance()
	s.do("add.u32", batch, batch, skinnyWarps)
	s.do("bra", again)
	s.mark(done)
	s.do("cp.async.wait_group", 0)
	s.do("bar.sync", 0, 32*skinnyWarps) // the memory is then reused for sums
	return sums
}

// copy starts the copies of a round, if there is one, and advances to the next.
func (s *skinny) copy(ahead reg, batches int, to, first, end reg) {
	none := s.label()
	s.when(s.pred("setp.ge.u32", ahead, batches), "bra", none)
	bytes := s.Depth * s.Bits / 8
	for j := range s.right {
		for k := range s.together() {
			for half := range 2 {
				s.do("cp.async.cg.shared.global", at(to, s.slot(j, k, half)),
					at(s.weights[j], 64*k+half*8*bytes), 16)
			}
		}
	}
	if n := s.stagedScales(); n > 0 {
		how := "cp.async.ca.shared.global"
		if n == 16 {
			how = "cp.async.cg.shared.global"
		}
		s.when(s.copies, how, at(to, s.slot(s.right, 0, 0)), at(s.scaleFrom, 0), n)
		s.do("add.u64", s.scaleFrom, s.scaleFrom, n*skinnyWarps)
	}
	s.mark(none)
	s.do("cp.async.commit_group")
	for j := range s.right {
		s.do("add.u64", s.weights[j], s.weights[j], 64*skinnyWarps*s.together())
	}
	s.do("add.u32", ahead, ahead, skinnyWarps)
	s.turn(to, first, end)
}

// slot returns the offset in a round of the 16 bytes of each thread of a warp.
func (s *skinny) slot(j, k, half int) int { return ((j*s.together()+k)*2 + half) * 32 * 16 }

// turn advances an address to the next round's.
func (s *skinny) turn(place, first, end reg) {
	s.do("add.u32", place, place, s.roundBytes())
	s.when(s.pred("setp.ge.u32", place, end), "mov.u32", place, first)
}

// fetch reads a round's weights back.
func (s *skinny) fetch(l skinnyLoop, from reg) {
	for j := range s.right {
		for k := range s.together() {
			for half := range 2 {
				s.do("ld.shared.v4.b32", group(l.weights[j][k][half]...), at(from, s.slot(j, k, half)))
			}
		}
	}
}

// fetchScales reads a round's scales back, which other threads of the warp have copied.
func (s *skinny) fetchScales(l skinnyLoop, groups []reg, from reg) {
	first := s.u32("mad.lo.u32", s.place, 16, s.u32("sub.u32", from, s.u32("mul.lo.u32", s.lane, 16)))
	for k, g := range groups {
		place := s.u32("add.u32", first, g)
		for j := range s.right {
			for half := range 2 {
				s.do("ld.shared.b16", l.scales[j][k][half],
					at(place, s.slot(s.right, 0, 0)+(j*skinnyTile+half*8)*16))
			}
		}
	}
}

// advance advances the addresses to the warp's next round.
func (s *skinny) advance() {
	n := skinnyWarps * s.together()
	for j := range s.right {
		if s.each() == 2 && s.stagedScales() == 0 {
			s.do("add.u64", s.scales[j], s.scales[j], 2*n*s.step()/s.Group)
		}
	}
	add := "add.u64"
	if s.rowsBytes() > 0 {
		add = "add.u32"
	}
	for _, x := range s.x {
		s.do(add, x, x, 2*n*s.step())
	}
}

// registers allocates those for what is read; columns without a row stay 0.
func (s *skinny) registers() skinnyLoop {
	var l skinnyLoop
	some := func(n int) (list []reg) {
		for range n {
			list = append(list, s.reg("r"))
		}
		return list
	}
	for range s.right {
		var steps [][2][]reg
		var scales [][2]reg
		for range s.together() {
			steps = append(steps, [2][]reg{some(4), some(4)})
			scales = append(scales, [2]reg{s.reg("h"), s.reg("h")})
		}
		l.weights, l.scales = append(l.weights, steps), append(l.scales, scales)
	}
	for range s.x {
		var steps [][]reg
		for range s.together() {
			steps = append(steps, some(s.step()/8))
			if s.Rows%8 != 0 {
				for _, r := range steps[len(steps)-1] {
					s.do("mov.u32", r, 0)
				}
			}
		}
		l.x = append(l.x, steps)
	}
	return l
}

// groupPlaces returns the offsets in bytes of the scales for what the thread reads in each step of a round.
func (s *skinny) groupPlaces() (list []reg) {
	if s.each() == 1 {
		return nil
	}
	for k := range s.together() {
		from := s.u32("mad.lo.u32", s.quad, s.step()/4, s.u32("mov.u32", k*s.step()))
		list = append(list, s.u32("shl.b32", s.u32("div.u32", from, s.Group), 1))
	}
	return list
}

// read loads what a round needs besides the weights.
func (s *skinny) read(l skinnyLoop, groups []reg) {
	if s.each() == 2 && s.stagedScales() == 0 {
		for j := range s.right {
			for k, g := range groups {
				from := s.u64("add.u64", s.scales[j], s.u64("cvt.u64.u32", g))
				s.do("ld.global.nc.b16", l.scales[j][k][0], at(from, 0))
				s.do("ld.global.nc.b16", l.scales[j][k][1], at(from, 8*2*s.Depth/s.Group))
			}
		}
	}
	load := "ld.global.nc.v4.b32"
	if s.rowsBytes() > 0 {
		load = "ld.shared.v4.b32"
	}
	for i, x := range s.x {
		guard := reg("")
		if s.Rows%8 != 0 && i == len(s.x)-1 {
			guard = s.pred("setp.lt.u32", s.place, s.Rows%8)
		}
		for k := range s.together() {
			for n := 0; n < s.step()/8; n += 4 {
				args := []any{group(l.x[i][k][n : n+4]...), at(x, 2*k*s.step()+4*n)}
				if guard == "" {
					s.do(load, args...)
				} else {
					s.when(guard, load, args...)
				}
			}
		}
	}
}

// multiply emits the products of what a step has read.
func (s *skinny) multiply(l skinnyLoop, k int, sums [][][]reg) {
	for j := range s.right {
		first, second := l.weights[j][k][0], l.weights[j][k][1]
		var scale [2]reg
		if s.each() == 2 {
			for half, h := range l.scales[j][k] {
				scale[half] = s.u32("mov.b32", group(h, h))
			}
		}
		for i := range s.x {
			x := l.x[i][k]
			if s.Bits == 4 {
				x = s.byHalves(x)
			}
			for n := 0; n < len(x); n += 2 {
				a, b := s.pair(first, n, scale[0]), s.pair(second, n, scale[1])
				c, d := s.pair(first, n+1, scale[0]), s.pair(second, n+1, scale[1])
				sum := group(sums[j][i]...)
				s.do("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", sum, group(a, b, c, d),
					group(x[n], x[n+1]), sum)
			}
		}
	}
}

// byHalves pairs each element of 8 with the one 4 further on, as 4-bit integers are paired.
func (s *skinny) byHalves(x []reg) (y []reg) {
	for i := 0; i < len(x); i += 4 {
		for n := range 2 {
			y = append(y, s.u32("prmt.b32", x[i+n], x[i+2+n], "0x5410"), s.u32("prmt.b32", x[i+n], x[i+2+n], "0x7632"))
		}
	}
	return y
}

// pair returns the n-th pair of weights as two bf16. An integer is put into the mantissa bits of a number
// from 128 on, and the excess is subtracted: both are exact.
func (s *skinny) pair(words []reg, n int, scale reg) reg {
	switch s.Bits {
	case 8:
		two := s.u32("prmt.b32", words[n/2], 0, [2]string{"0x4140", "0x4342"}[n%2])
		low := s.u32("lop3.b32", two, "0x007f007f", "0x43004300", "0xea")  // 128 and the lower 7 bits
		rest := s.u32("lop3.b32", two, "0x00800080", "0xc380c380", "0x6a") // -128 where the upper bit is, else -256
		return s.scaled(s.u32("fma.rn.bf16x2", low, s.one, rest), scale)
	case 4:
		word := words[n/4]
		if n%4 > 0 {
			word = s.u32("shr.u32", word, 4*(n%4))
		}
		two := s.u32("lop3.b32", word, "0x000f000f", "0x43004300", "0xea")
		return s.scaled(s.u32("fma.rn.bf16x2", two, s.one, s.excess), scale)
	}
	return words[n]
}

func (s *skinny) scaled(x, scale reg) reg { return s.u32("fma.rn.bf16x2", x, scale, s.zero) }

// finish adds the sums of the warps, and writes the results.
func (s *skinny) finish(sums [][][]reg) {
	columns := s.columns()
	size := skinnyTile * columns * 4
	for j := range sums {
		// A thread holds two adjacent sums of its row, and of the one 8 further on.
		mine := s.u32("mad.lo.u32", s.place, 4*columns, s.u32("mad.lo.u32", s.quad, 8, s.base))
		mine = s.u32("mad.lo.u32", s.warp, size, mine)
		for i, four := range sums[j] {
			for n, sum := range four {
				s.do("st.shared.b32", at(mine, j*skinnyWarps*size+n/2*8*4*columns+4*(8*i+n%2)), sum)
			}
		}
	}
	s.do("bar.sync", 0, 32*skinnyWarps)
	done := s.label()
	s.when(s.pred("setp.ge.u32", s.tid, skinnyTile*s.Rows), "bra", done)
	n, m := s.u32("and.b32", s.tid, skinnyTile-1), s.u32("shr.u32", s.tid, 4)
	from := s.u32("mad.lo.u32", n, 4*columns, s.u32("mad.lo.u32", m, 4, s.base))
	y := s.total(from, 0, size)
	if s.Gated {
		up := s.rounded(s.total(from, skinnyWarps*size, size))
		gate := s.rounded(y)
		y = s.f32("mul.f32", s.f32("mul.f32", gate, s.sigmoid(gate)), up)
	}
	place := s.u32("add.u32", s.u32("mad.lo.u32", m, s.cols, s.row), n)
	h := s.reg("h")
	s.do("cvt.rn.bf16.f32", h, y)
	s.do("st.global.b16", at(s.u64("mad.wide.u32", place, 2, s.out), 0), h)
	s.mark(done)
}

// total returns the sum over the warps.
func (s *skinny) total(from reg, bytes, size int) reg {
	var sum reg
	for w := range skinnyWarps {
		x := s.f32("ld.shared.b32", at(from, bytes+w*size))
		if w == 0 {
			sum = x
		} else {
			sum = s.f32("add.f32", sum, x)
		}
	}
	return sum
}

// rounded rounds a number to bf16.
func (p *product) rounded(x reg) reg {
	return p.f32("mov.b32", p.u32("and.b32", p.u32("cvt.rn.bf16x2.f32", x, x), "0xffff0000"))
}
