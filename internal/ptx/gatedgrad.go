package ptx

// GatedGradient is a product of rows and weights, a column for each result, whose results are the gradient of
// silu(gate)·up, of Width columns; and the gradients of gate and up.
type GatedGradient struct{ Rows, Depth, Width int }

// Fits reports whether a kernel exists for these sizes.
func (q GatedGradient) Fits() bool {
	return fits(q.Rows, q.Width, q.Depth) && fits(q.Rows, 2*q.Width, q.Depth)
}

// Share returns the share of the multiprocessors (SMs) that the kernel keeps busy.
func (q GatedGradient) Share() float64 { return share(q.Rows, q.Width) }

// Kernel returns a kernel that computes both in one pass. Its arrays, of bf16: the left operand; the weights,
// a row for each element of the depth; gate and up; and the gradients of these.
func (q GatedGradient) Kernel() Kernel {
	p := newProduct(q.Rows, q.Width, q.Depth, true)
	p.maps = append(p.maps, tensorMap{2, q.Rows, 2 * q.Width, tileRows})
	both := len(p.maps) - 1
	var out reg
	return p.kernel(plan{
		name: "gated_gradient", arrays: 4,
		// One more round of the ring buffer brings the tile's gate, 64 columns in a slot, in place of parts of the
		// left operand, and up.
		tail: func(row, col, phase reg) {
			once := copying{policy: p.policy("evict_first")}
			for s := range slots {
				x := p.u32("mad.lo.u32", col, tileCols, p.u32("mov.u32", 64*s))
				p.expect(s, phase, 2*leftBytes)
				p.load(both, at(p.base, s*leftBytes), x, row, s, once)
				p.load(both, at(p.base, rightAt+s*rightBytes), p.u32("add.u32", x, q.Width), row, s, once)
			}
		},
		setup: func() { out = p.pointer(3) },
		finish: func(g grouped, row, col, phase reg, sums []reg) {
			y := p.u32("mad.lo.u32", g.index, groupRows, row)
			for s := range slots {
				gates, ups := p.takeGates(g, s, phase)
				var ds [8][4]reg
				for i := range 4 {
					ds[i], ds[4+i] = p.gradients(gates[i], ups[i], p.packed(sums, 8*s+2*i))
				}
				x := p.u32("mad.lo.u32", col, tileCols, p.u32("mov.u32", 64*s))
				p.put(g, p.outAt(g, out, 2*q.Width, x, y, q.Width), func(i int) [4]reg { return ds[i] })
			}
			p.do("xor.b32", phase, phase, 1)
		},
	})
}

// takeGates loads the warpgroup's rows of gate and up in a slot, 16 columns each.
func (p *product) takeGates(g grouped, slot int, phase reg) (gates, ups [4][4]reg) {
	p.wait(fullAt+8*slot, phase)
	rows := p.u32("mad.lo.u32", g.index, boxBytes, p.base)
	for i := range gates {
		where := p.u32("add.u32", rows, g.chunk[i])
		gates[i], ups[i] = p.moved(at(where, slot*leftBytes)), p.moved(at(where, rightAt+slot*rightBytes))
	}
	p.do("bar.sync", g.barrier, 128)
	p.release(g, g.tells, slot)
	return gates, ups
}

// moved loads 16 columns of a warp's 16 rows from a box.
func (p *product) moved(from string) [4]reg {
	r := [4]reg{p.reg("r"), p.reg("r"), p.reg("r"), p.reg("r")}
	p.do("ldmatrix.sync.aligned.m8n8.x4.shared.b16", group(r[:]...), from)
	return r
}

// gradients returns the gradients of gate and up, from rounded numbers.
func (p *product) gradients(gate, up, of [4]reg) (dGate, dUp [4]reg) {
	for n := range gate {
		g0, g1 := p.unpack(gate[n])
		u0, u1 := p.unpack(up[n])
		d0, d1 := p.unpack(of[n])
		a0, b0 := p.gradient(g0, u0, d0)
		a1, b1 := p.gradient(g1, u1, d1)
		dGate[n], dUp[n] = p.pack(a0, a1), p.pack(b0, b1)
	}
	return dGate, dUp
}

func (p *product) gradient(gate, up, of reg) (dGate, dUp reg) {
	s := p.sigmoid(gate)
	silu := p.f32("mul.f32", gate, s)
	// The derivative of silu is s + silu·(1-s).
	slope := p.f32("fma.rn.f32", silu, p.f32("sub.f32", "0f3F800000", s), s)
	return p.f32("mul.f32", p.f32("mul.f32", of, up), slope), p.f32("mul.f32", of, silu)
}
