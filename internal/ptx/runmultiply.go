package ptx

import (
	"encoding/binary"
	"math"
)

// multiplying is a product of 64 rows by 256 columns with depth 16 that a warpgroup has started (wgmma).
type multiplying struct {
	in          *instruction
	sums        []int
	left, right uint64
	// adds reports that it adds to the sums, turned that the right operand is transposed.
	adds, turned bool
	// rows and cols are the operands, once they were read.
	rows *[groupRows][depthStep]float32
	cols *[tileCols][depthStep]float32
}

// depthStep is the depth of a product.
const depthStep = 16

// makeFence decodes the fence that must separate accesses to the sums from a product.
func makeFence(d *decoder) {
	d.together(groupThreads, func(c *crew) {
		for _, t := range c.threads {
			t.fenced = true
		}
	})
}

// makeMultiply decodes {sums}, left, right, adds, 1, 1, 0, turned: neither operand is negated, and the left
// one is not transposed.
func makeMultiply(d *decoder) {
	sums, sides, adds := d.group("f32", tileCols/2), d.takes("b64", 2), d.take("pred")
	d.word("1")
	d.word("1")
	d.word("0")
	turned := d.number("u32")
	if turned > 1 {
		d.fail("%s: got %d: want 0 or 1", d.op, turned)
	}
	for _, reg := range sums {
		d.program.sums[reg] = true
	}
	d.in.product = true
	d.together(groupThreads, func(c *crew) {
		t := c.threads[0]
		m := &multiplying{in: t.unit.pair.now, sums: sums, left: t.get(sides[0]), right: t.get(sides[1]),
			adds: t.get(adds) != 0, turned: turned == 1}
		for _, o := range c.threads {
			if o.get(sides[0]) != m.left || o.get(sides[1]) != m.right || o.get(adds) != 0 != m.adds {
				o.fault("got other operands than thread %d: want the same in the group", t.index)
			}
			o.start(m)
		}
		if t.unit.pair.early() {
			m.read(t)
		}
		c.products = append(c.products, m)
	})
}

// start checks that a thread's sums may take part in a product.
func (t *thread) start(m *multiplying) {
	if !t.fenced {
		t.fault("sums were used since the last fence, or there was none: want one before")
	}
	for _, reg := range m.sums {
		if m.adds && t.state[reg] == unset {
			t.unread(reg)
		}
		t.state[reg] = inFlight
	}
}

// makeCommit decodes the commit of the products since the last one as a group.
func makeCommit(d *decoder) {
	d.together(groupThreads, func(c *crew) {
		n := len(c.products)
		for _, done := range c.committed {
			n -= done
		}
		c.committed = append(c.committed, n)
	})
}

// makeWait decodes the wait for all groups of products but the last n. Their sums become available only here.
func makeWait(d *decoder) {
	open := d.number("u32")
	d.together(groupThreads, func(c *crew) {
		for len(c.committed) > int(open) {
			for range c.committed[0] {
				c.multiply(c.products[0])
				c.products = c.products[1:]
			}
			c.committed = c.committed[1:]
		}
		for _, m := range c.products {
			c.mark(m, inFlight)
		}
	})
}

// mark sets the state of a product's sums.
func (c *crew) mark(m *multiplying, state uint8) {
	for _, t := range c.threads {
		for _, reg := range m.sums {
			t.state[reg] = state
		}
	}
}

// read reads the operands, at any time from the product's start until it is waited for.
func (m *multiplying) read(t *thread) {
	p := t.unit.pair
	now := p.now
	p.now = m.in
	if !p.left(tileCols) {
		m.rows, m.cols = new([groupRows][depthStep]float32), new([tileCols][depthStep]float32)
		t.side(m.rows[:], m.left, false)
		t.side(m.cols[:], m.right, m.turned)
	}
	p.now = now
}

// multiply computes a product. Thread t holds, for columns 8·i+2·(t%4) and the next one, sums 4·i and 4·i+1
// of its row, and 4·i+2 and 4·i+3 of the row 8 below.
func (c *crew) multiply(m *multiplying) {
	if m.rows == nil {
		m.read(c.threads[0])
	}
	c.mark(m, set)
	if m.rows == nil { // the emulation ended at its step limit
		return
	}
	result := m.result()
	for i, t := range c.threads {
		top := i/warpThreads*16 + i%warpThreads/4
		for n, reg := range m.sums {
			sum := result[top+n%4/2*8][n/4*8+i%4*2+n%2]
			if m.adds {
				sum += math.Float32frombits(uint32(t.regs[reg]))
			}
			t.regs[reg] = uint64(math.Float32bits(sum))
		}
	}
}

// result returns what is added to the sums; the order on a device is unspecified. The operands are copied,
// since the race detector slows down every other access.
func (m *multiplying) result() (out [groupRows][tileCols]float32) {
	rows, cols := *m.rows, *m.cols
	for i := range rows {
		for j := range cols {
			var s0, s1, s2, s3 float32
			for k := 0; k < depthStep; k += 4 {
				s0 += rows[i][k] * cols[j][k]
				s1 += rows[i][k+1] * cols[j][k+1]
				s2 += rows[i][k+2] * cols[j][k+2]
				s3 += rows[i][k+3] * cols[j][k+3]
			}
			out[i][j] = s0 + s1 + (s2 + s3)
		}
	}
	return out
}

// side reads an operand of a product from shared memory by its descriptor: bits 0 to 13 are the address, 16
// to 29 the distance between pieces of 64 columns of a transposed operand, 32 to 45 the distance from 8 rows
// to the next, all in units of 16 bytes; the last two bits, 1, are the 128-byte swizzle.
func (t *thread) side(rows [][depthStep]float32, descriptor uint64, turned bool) {
	field := func(low int) int { return int(descriptor>>low&(1<<14-1)) << 4 }
	const others = 3<<14 | 3<<30 | (1<<18-1)<<46
	start, beside, below := field(0), field(16), field(32)
	// For an operand that is not transposed the distance between pieces is unused, but an invalid one indicates
	// an address that was not masked.
	if descriptor&others != 1<<62 || beside%(8*rowBytes) != 0 || below%(8*rowBytes) != 0 {
		t.fault("descriptor %#x: want 128 bytes to a row, whole rows by 8, and no other bits", descriptor)
		return
	}
	for i := range rows {
		for k := range rows[i] {
			at := i/8*below + i%8*rowBytes + 2*k
			if turned {
				at = i/64*beside + k/8*below + k%8*rowBytes + i%64*2
			}
			at = swizzled(start+at) - keptBytes
			if at < 0 || at+2 > len(t.unit.memory) {
				t.fault("byte %d of the block's memory: want it within its %d", at, len(t.unit.memory))
				return
			}
			rows[i][k] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(t.unit.memory[at:])) << 16)
		}
	}
}
