package ptx

import "fmt"

// RoPEProduct is a product of rows and weights whose results are several arrays side by side, some of which
// are rotated by position (RoPE): queries, keys and values.
type RoPEProduct struct {
	// Rows and Depth are those of the left operand. Rows are ordered by position: Seq of them, then the next
	// sequence.
	Rows, Depth, Seq int
	// Head is the size of a head: each number is rotated with the one half a head away.
	Head int
	// Rotated lists the widths of the rotated arrays, Plain those of the others, after them.
	Rotated, Plain []int
}

// turnedName is the kernel's name, with the number of arrays that it rotates.
const turnedName = "turned_product_%d"

// Fits reports whether a kernel exists for these sizes.
func (q RoPEProduct) Fits() bool {
	for _, n := range append(q.widths(), q.cols()) {
		if !fits(q.Rows, n, q.Depth) {
			return false
		}
	}
	head := q.Head >= 16 && q.Head <= tileCols && q.Head&(q.Head-1) == 0
	return head && q.Seq > 0 && q.Rows%q.Seq == 0 && len(q.Rotated) > 0
}

// Share returns the share of the multiprocessors (SMs) that the kernel keeps busy.
func (q RoPEProduct) Share() float64 { return share(q.Rows, q.cols()) }

func (q RoPEProduct) widths() []int { return append(append([]int(nil), q.Rotated...), q.Plain...) }

func (q RoPEProduct) cols() int { return sumOf(q.widths()) }

// Kernel returns a kernel that computes it in one pass. Its arrays: the left operand and the weights, a row
// for each result, of bf16; cosines and sines of each position's Head/2 angles, f32; then the results, of
// bf16.
func (q RoPEProduct) Kernel() Kernel {
	p := newProduct(q.Rows, q.cols(), q.Depth, false)
	var cos, sin reg
	arrays := make([]reg, len(q.widths()))
	return p.kernel(plan{
		name: fmt.Sprintf(turnedName, len(q.Rotated)), arrays: 4 + len(arrays),
		setup: func() {
			cos, sin = p.pointer(2), p.pointer(3)
			for i := range arrays {
				arrays[i] = p.pointer(4 + i)
			}
		},
		finish: func(g grouped, row, col, _ reg, sums []reg) {
			y := p.u32("mad.lo.u32", g.index, groupRows, row)
			plain := p.label()
			p.when(p.pred("setp.ge.u32", col, sumOf(q.Rotated)/tileCols), "bra", plain)
			q.turn(p, g, y, cos, sin, sums)
			p.mark(plain)
			done := p.label()
			for i, n := range q.widths() {
				next := p.label()
				first := sumOf(q.widths()[:i]) / tileCols
				p.when(p.pred("setp.ge.u32", col, first+n/tileCols), "bra", next)
				x := p.u32("mul.lo.u32", p.u32("sub.u32", col, first), tileCols)
				p.putTile(g, arrays[i], n, x, y, sums)
				p.do("bra", done)
				p.mark(next)
			}
			p.mark(done)
		},
	})
}

// putTile stores a tile's sums.
func (p *product) putTile(g grouped, array reg, cols int, x, y reg, sums []reg) {
	for b := range 2 {
		p.put(g, p.outAt(g, array, cols, p.u32("add.u32", x, 128*b), y, 64),
			func(i int) [4]reg { return p.packed(sums, 16*b+2*i) })
	}
}

func sumOf(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}

// turn rotates a tile's numbers in place.
func (q RoPEProduct) turn(p *product, g grouped, y, cos, sin reg, sums []reg) {
	half := q.Head / 2
	warp := p.u32("shr.u32", g.thread, 5)
	row := p.u32("add.u32", p.u32("mad.lo.u32", warp, 16, p.u32("shr.u32", p.lane, 2)), y)
	pair := p.u32("and.b32", p.lane, 3)
	for lower := range 2 {
		at := p.u32("rem.u32", p.u32("add.u32", row, 8*lower), q.Seq)
		bytes := p.u64("mul.wide.u32", p.u32("mad.lo.u32", at, half, p.u32("shl.b32", pair, 1)), 4)
		c, s := p.u64("add.u64", cos, bytes), p.u64("add.u64", sin, bytes)
		for i := range half / 8 {
			c0, c1 := p.two(c, 32*i)
			s0, s1 := p.two(s, 32*i)
			for head := range tileCols / q.Head {
				a := 4*(head*q.Head/8+i) + 2*lower
				b := a + half/2
				p.rotatePairs(sums[a:a+2], sums[b:b+2], [2]reg{c0, c1}, [2]reg{s0, s1})
			}
		}
	}
}

// two loads two adjacent floats.
func (p *product) two(from reg, bytes int) (a, b reg) {
	a, b = p.reg("f"), p.reg("f")
	p.do("ld.global.nc.v2.f32", group(a, b), at(from, bytes))
	return a, b
}

// rotatePairs rotates two numbers with those half a head away, all rounded before.
func (p *product) rotatePairs(a, b []reg, cos, sin [2]reg) {
	x, y := [2]reg{}, [2]reg{}
	x[0], x[1] = p.unpack(p.pack(a[0], a[1]))
	y[0], y[1] = p.unpack(p.pack(b[0], b[1]))
	for i := range 2 {
		p.do("mul.f32", a[i], y[i], sin[i])
		p.do("neg.f32", a[i], a[i])
		p.do("fma.rn.f32", a[i], x[i], cos[i], a[i])
		p.do("mul.f32", b[i], x[i], sin[i])
		p.do("fma.rn.f32", b[i], y[i], cos[i], b[i])
	}
}
