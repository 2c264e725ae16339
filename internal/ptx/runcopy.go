package ptx

import "strings"

// landing is a copy in flight.
type landing struct {
	in   *instruction
	from *thread
	boxes
	// x and y are the beginning of the box, to and barrier the addresses, the same in all receiving blocks.
	x, y        int32
	to, barrier uint32
	units       uint64
}

// copyArgs is the operands of a copy: [to], [box, {x, y}], [barrier], units, policy; the last two only if the
// instruction's name has them.
type copyArgs struct {
	to, barrier place
	box, x, y   source
	// units is the multicast mask; nil means this block.
	units  *source
	policy func(t *thread)
}

func makeCopyBox(d *decoder) {
	a := copyArgs{to: d.place("u32")}
	name, group, _ := strings.Cut(d.inBrackets(d.next("a map")), ", ")
	a.box.reg = d.register(name, "u64")
	corner := d.inBraces(group, "u32", 2)
	a.x.reg, a.y.reg = corner[0], corner[1]
	a.barrier = d.place("u32")
	if strings.Contains(d.op, ".multicast::cluster") {
		units := d.take("b16")
		a.units = &units
	}
	a.policy = d.policy()
	d.then(func(t *thread) { t.copyBox(a) })
}

// copyBox starts a copy.
func (t *thread) copyBox(a copyArgs) {
	a.policy(t)
	p := t.unit.pair
	c := landing{in: p.now, from: t, x: int32(t.u32(a.x)), y: int32(t.u32(a.y)), units: 1 << t.unit.rank}
	c.boxes = t.boxes(t.get(a.box))
	c.to, _ = t.within(uint32(t.address(a.to)), int(c.boxRows)*rowBytes, 8*rowBytes)
	c.barrier, _ = t.within(uint32(t.address(a.barrier)), 8, 8)
	if a.units != nil {
		c.units = t.get(*a.units)
	}
	if c.units == 0 || c.units >= 1<<pairUnits {
		t.fault("got blocks %#x: want some of the pair", c.units)
	}
	switch {
	case p.err != nil:
	case p.early():
		p.land(c)
	default:
		p.copies = append(p.copies, c)
	}
}

// land finishes a copy: elements outside of the array are zeros, and count as copied bytes.
func (p *pair) land(c landing) {
	p.now = c.in
	if p.left(int(c.boxRows)) {
		return
	}
	for rank, u := range p.units {
		if c.units>>rank&1 == 0 {
			continue
		}
		u.spares(c.from, c.to, int(c.boxRows)*rowBytes)
		for row := range int(c.boxRows) {
			for chunk := range rowBytes / 16 {
				at := swizzled(int(c.to) + row*rowBytes + chunk*16)
				c.piece(u.memory[at:at+16], chunk*8, row)
			}
		}
		if b := c.from.barrierOf(u, c.barrier); b != nil {
			b.bytes -= int(c.boxRows) * rowBytes
			b.check(c.from)
		}
	}
}

// rowBytes is the bytes of a row of a box.
const rowBytes = 128

// swizzled returns the swizzled offset of 16 bytes of a box or matrix: their order within 128 bytes depends
// on the row.
func swizzled(at int) int { return at ^ at>>3&0x70 }

// piece copies 8 numbers of a box.
func (c *landing) piece(to []byte, col, row int) {
	clear(to)
	x, y := int(c.x)+col, int(c.y)+row
	if y < 0 || y >= int(c.rows) {
		return
	}
	for i := range 8 {
		if x+i < 0 || x+i >= int(c.cols) {
			continue
		}
		copy(to[2*i:2*i+2], c.from.global(c.address+uint64(y)*c.stride+2*uint64(x+i), 2))
	}
}
