package ptx

// GatedProduct is a product of rows and weights whose results are gate and up side by side, of Width columns
// each; and silu(gate)·up of them.
type GatedProduct struct{ Rows, Depth, Width int }

// Fits reports whether a kernel exists for these sizes.
func (q GatedProduct) Fits() bool { return fits(q.Rows, 2*q.Width, q.Depth) }

// Share returns the share of the multiprocessors (SMs) that the kernel keeps busy.
func (q GatedProduct) Share() float64 { return share(q.Rows, 2*q.Width) }

// Kernel returns a kernel that computes both in one pass. Its arrays, of bf16: the left operand; the weights,
// a row for each result; gate and up; and silu(gate)·up.
func (q GatedProduct) Kernel() Kernel {
	const half = tileCols / 2
	p := newProduct(q.Rows, 2*q.Width, q.Depth, false)
	var both, out, once reg
	return p.kernel(plan{
		name: "gated_product", arrays: 4,
		// A tile has gates and the matching up columns: each block of the cluster fetches one of these.
		right: func(col reg) reg {
			return p.u32("mad.lo.u32", p.rank, q.Width, p.u32("mul.lo.u32", col, half))
		},
		setup: func() { both, out, once = p.pointer(2), p.pointer(3), p.policy("evict_first") },
		finish: func(g grouped, row, col, _ reg, sums []reg) {
			y := p.u32("mad.lo.u32", g.index, groupRows, row)
			x := p.u32("mul.lo.u32", col, half)
			p.put(g, p.outAt(g, out, q.Width, x, y, 64), func(i int) (r [4]reg) {
				gate, up := p.packed(sums, 2*i), p.packed(sums, 16+2*i)
				for n := range r {
					r[n] = p.let(gate[n], up[n])
				}
				return r
			})
			for b := range 2 {
				// These are not read before the backward pass.
				to := p.outAt(g, both, 2*q.Width, p.u32("add.u32", x, b*q.Width), y, 64)
				to.policy = once
				p.put(g, to, func(i int) [4]reg { return p.packed(sums, 16*b+2*i) })
			}
		},
	})
}

// let returns silu(gate)·up of two rounded pairs.
func (p *product) let(gate, up reg) reg {
	g0, g1 := p.unpack(gate)
	u0, u1 := p.unpack(up)
	return p.pack(p.f32("mul.f32", p.f32("mul.f32", g0, p.sigmoid(g0)), u0),
		p.f32("mul.f32", p.f32("mul.f32", g1, p.sigmoid(g1)), u1))
}

// sigmoid returns 1/(1+exp(-x)).
func (p *product) sigmoid(x reg) reg {
	const minusLog2E = "0fBFB8AA3B"
	return p.f32("rcp.approx.ftz.f32", p.f32("add.f32", p.f32("ex2.approx.ftz.f32", p.f32("mul.f32", x,
		minusLog2E)), "0f3F800000"))
}
