package ptx

// In each 8 columns a thread holds two sums of its row and two of the row 8 below: numbers 4·i to 4·i+3 are
// those of columns 8·i and on.

// pack rounds two numbers to a bf16 pair in one register, unpack widens them again.
func (p *product) pack(low, high reg) reg { return p.u32("cvt.rn.bf16x2.f32", high, low) }

func (p *product) unpack(r reg) (low, high reg) {
	return p.f32("mov.b32", p.u32("shl.b32", r, 16)), p.f32("mov.b32", p.u32("and.b32", r, "0xffff0000"))
}

// packed returns the sums of 16 columns from a multiple of 8 on, rounded, in the order of a matrix move of a
// warp's 16 rows.
func (p *product) packed(sums []reg, eighth int) [4]reg {
	s := sums[4*eighth:]
	return [4]reg{p.pack(s[0], s[1]), p.pack(s[2], s[3]), p.pack(s[4], s[5]), p.pack(s[6], s[7])}
}

// out is the address to which a thread stores its part of a warp's rows.
type out struct {
	address reg
	// rows is the bytes of two rows of the array.
	rows int
	// policy is the cache policy, if any.
	policy reg
}

// outAt returns the address of 16 rows by 128 columns of an array from a column and the warpgroup's row on;
// beyond is the offset of the second 64 columns from the first.
func (p *product) outAt(g grouped, array reg, cols int, x, y reg, beyond int) out {
	row := p.u32("add.u32", p.u32("add.u32", y, g.firstRow), p.u32("shr.u32", p.lane, 4))
	start := p.u64("mad.wide.u32", row, 2*cols, array)
	second := p.u32("and.b32", p.u32("shr.u32", p.lane, 3), 1)
	piece := p.u32("mad.lo.u32", second, 2*beyond, p.u32("shl.b32", p.u32("and.b32", p.lane, 7), 4))
	bytes := p.u64("cvt.u64.u32", p.u32("mad.lo.u32", x, 2, piece))
	return out{p.u64("add.u64", start, bytes), 4 * cols, ""}
}

// put stores 128 columns of the warp's 16 rows, through shared memory, where each warp has its own
// buffer.
func (p *product) put(g grouped, to out, part func(i int) [4]reg) {
	p.warpSync()
	for i := range 8 {
		r := part(i)
		p.do("stmatrix.sync.aligned.m8n8.x4.shared.b16", at(g.piece[i], 0), group(r[:]...))
	}
	p.warpSync()
	for i := range 8 {
		r := []reg{p.reg("r"), p.reg("r"), p.reg("r"), p.reg("r")}
		p.do("ld.shared.v4.b32", group(r...), at(g.line[i%4], i/4*8*256))
		if to.policy != "" {
			p.do("st.global.L2::cache_hint.v4.b32", at(to.address, i*to.rows), group(r...), to.policy)
		} else {
			p.do("st.global.v4.b32", at(to.address, i*to.rows), group(r...))
		}
	}
}
