package ptx

import "encoding/binary"

// makeShuffle decodes a shuffle that broadcasts one thread's number to its warp.
func makeShuffle(d *decoder) {
	out, in, lane := d.out("b32"), d.take("b32"), d.take("u32")
	if clamp := d.number("u32"); clamp != warpThreads-1 {
		d.fail("%s: got %d: want %d", d.op, clamp, warpThreads-1)
	}
	d.wholeWarp()
	d.together(warpThreads, func(c *crew) {
		var values [warpThreads]uint64
		for i, t := range c.threads {
			values[i] = c.threads[t.u32(lane)%warpThreads].get(in)
		}
		for i, t := range c.threads {
			t.set(out, values[i])
		}
	})
}

// In a move of four 8 by 8 matrices, thread 8·m+r addresses row r of matrix m, and thread 4·r+c holds numbers
// 2·c and 2·c+1 of row r in its register m.

func makeStoreMatrix(d *decoder) {
	place, in := d.place("u32"), d.group("b32", 4)
	d.together(warpThreads, func(c *crew) {
		for i, t := range c.threads {
			row := t.sharedOut(uint32(t.address(place)), 16)
			for n := range 4 {
				binary.LittleEndian.PutUint32(row[4*n:], c.threads[i%8*4+n].u32(source{reg: in[i/8]}))
			}
		}
	})
}

func makeLoadMatrix(d *decoder) {
	out, place := d.group("b32", 4), d.place("u32")
	d.together(warpThreads, func(c *crew) {
		var rows [warpThreads][]byte
		for i, t := range c.threads {
			rows[i] = t.shared(uint32(t.address(place)), 16)
		}
		for i, t := range c.threads {
			for m, reg := range out {
				t.set(reg, uint64(binary.LittleEndian.Uint32(rows[8*m+i/4][i%4*4:])))
			}
		}
	})
}
