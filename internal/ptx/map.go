package ptx

import "fmt"

// tensorMap describes a matrix in memory that is copied in boxes of 64 columns, for the TMA copy
// engine.
type tensorMap struct {
	param, rows, cols, boxRows int
}

// write emits code by which the first warp builds the map in shared memory, at an offset, and copies it to
// the kernel's scratch memory.
func (m tensorMap) write(p *product, here, there int) {
	p.do("st.shared.b32", at(p.u32("mad.lo.u32", p.lane, 4, p.base), here), 0)
	p.warpSync()
	rest := p.label()
	p.when(p.pred("setp.ne.u32", p.lane, 0), "bra", rest)
	set := func(field, bits string, values ...any) {
		p.do("tensormap.replace.tile."+field+".shared::cta.b1024."+bits,
			append([]any{at(p.base, here)}, values...)...)
	}
	set("global_address", "b64", p.u64("ld.param.u64", fmt.Sprintf("[p%d]", m.param)))
	set("rank", "b32", 1)
	for i, n := range []int{64, m.boxRows} {
		set("box_dim", "b32", i, n)
	}
	for i, n := range []int{m.cols, m.rows} {
		set("global_dim", "b32", i, n)
	}
	set("global_stride", "b64", 0, p.u64("mov.u64", 2*m.cols))
	for i := range 2 {
		set("element_stride", "b32", i, 1)
	}
	const bf16, apart, rows128, zeros = 10, 0, 3, 0
	set("elemtype", "b32", bf16)
	set("interleave_layout", "b32", apart)
	set("swizzle_mode", "b32", rows128)
	set("fill_mode", "b32", zeros)
	p.mark(rest)
	p.warpSync()
	p.do("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned",
		at(p.scratch, there), at(p.base, here), mapBytes)
}

// seen emits the fence after which a thread may use a map.
func (p *product) seen(i int) {
	p.do("fence.proxy.tensormap::generic.acquire.gpu", at(p.scratch, i*mapBytes), mapBytes)
}

// box returns the operand of a copy: the box of a map that begins at a column and a row.
func (p *product) box(i int, x, y reg) string {
	return fmt.Sprintf("[%s, %s]", p.u64("add.u64", p.scratch, i*mapBytes), group(x, y))
}
