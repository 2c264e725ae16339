package ptx

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/galley-ml/galley/array"
)

// Instructions of kernels whose threads access memory themselves, without TMA.

// makeCopyAsync decodes cp.async: a copy of 16 bytes, or of 4 or 8 through the L1 cache, to shared memory. It
// happens as late as allowed: when the thread waits for it.
func makeCopyAsync(d *decoder) {
	to, from := d.place("u32"), d.place("u64")
	n := int(d.number("u32"))
	if cached := strings.HasPrefix(d.op, "cp.async.ca"); n != 16 && !(cached && (n == 4 || n == 8)) {
		d.fail("%s: got %d bytes: want 16, or 4 or 8 of cp.async.ca", d.op, n)
	}
	d.then(func(t *thread) {
		out, in := t.sharedOut(uint32(t.address(to)), n), t.global(t.address(from), n)
		garbage(out)
		if len(t.copying) == 0 {
			t.copying = append(t.copying, nil)
		}
		last := len(t.copying) - 1
		t.copying[last] = append(t.copying[last], func() { copy(out, in) })
	})
}

// makeCommitCopies decodes the commit of a group of copies.
func makeCommitCopies(d *decoder) {
	d.then(func(t *thread) {
		if len(t.copying) == 0 {
			t.copying = append(t.copying, nil)
		}
		t.copying = append(t.copying, nil)
	})
}

// makeWaitCopies decodes the wait for all groups of copies but the last n.
func makeWaitCopies(d *decoder) {
	left := int(d.number("u32"))
	d.then(func(t *thread) {
		for len(t.copying)-1 > left { // the last one is open
			for _, land := range t.copying[0] {
				land()
			}
			t.copying = t.copying[1:]
		}
		if len(t.copying) == 1 && len(t.copying[0]) == 0 {
			t.copying = nil
		}
	})
}

func makeLoadFour(d *decoder) {
	out, from := d.group("b32", 4), d.place("u64")
	d.then(func(t *thread) { t.load(out, t.global(t.address(from), 16)) })
}

// makeLoadOne decodes a load of one 16-bit or 32-bit number.
func makeLoadOne(d *decoder) {
	typ, bytes := "b32", 4
	if strings.HasSuffix(d.op, ".b16") {
		typ, bytes = "b16", 2
	}
	out, from := d.out(typ), d.place("u64")
	d.then(func(t *thread) {
		b := t.global(t.address(from), bytes)
		if bytes == 2 {
			t.set(out, uint64(binary.LittleEndian.Uint16(b)))
			return
		}
		t.set(out, uint64(binary.LittleEndian.Uint32(b)))
	})
}

func makeLoadSharedOne(d *decoder) {
	out, from := d.out("b32"), d.place("u32")
	d.then(func(t *thread) {
		t.set(out, uint64(binary.LittleEndian.Uint32(t.shared(uint32(t.address(from)), 4))))
	})
}

func makeLoadSharedHalf(d *decoder) {
	out, from := d.out("b16"), d.place("u32")
	d.then(func(t *thread) {
		t.set(out, uint64(binary.LittleEndian.Uint16(t.shared(uint32(t.address(from)), 2))))
	})
}

func makeStoreOne(d *decoder) {
	to, in := d.place("u64"), d.take("b16")
	d.then(func(t *thread) {
		binary.LittleEndian.PutUint16(t.global(t.address(to), 2), uint16(t.get(in)))
	})
}

// makeMoveB32 decodes a copy, or the packing of two 16-bit numbers, the lower one first.
func makeMoveB32(d *decoder) {
	if len(d.args) != 2 || !strings.HasPrefix(d.args[1], "{") {
		makeMove(d)
		return
	}
	out, in := d.out("b32"), d.group("b16", 2)
	d.then(func(t *thread) {
		t.set(out, t.get(source{reg: in[0]})|t.get(source{reg: in[1]})<<16)
	})
}

func makeRoundOne(d *decoder) {
	out, in := d.out("b16"), d.take("f32")
	d.then(func(t *thread) { t.set(out, uint64(array.ToBFloat16(t.f32(in)))) })
}

func makeFloat(d *decoder) {
	out, in := d.out("f32"), d.take("u32")
	d.then(func(t *thread) { t.setF32(out, float32(t.u32(in))) })
}

// makePermute decodes prmt, which selects four of the eight bytes of two words by the digits of a number.
func makePermute(d *decoder) {
	out, low, high, which := d.out("b32"), d.take("b32"), d.take("b32"), d.take("b32")
	d.then(func(t *thread) {
		all, n, result := t.get(low)|t.get(high)<<32, t.u32(which), uint64(0)
		for i := range 4 {
			digit := n >> (4 * i) & 15
			if digit > 7 {
				t.fault("byte %d: want one of 8", digit)
			}
			result |= all >> (8 * (digit & 7)) & 255 << (8 * i)
		}
		t.set(out, result)
	})
}

// makeLogic decodes lop3, a function of the bits of three words given by its truth table of 8
// bits.
func makeLogic(d *decoder) {
	out, in, table := d.out("b32"), d.takes("b32", 3), d.number("u32")
	d.then(func(t *thread) {
		a, b, c, result := t.u32(in[0]), t.u32(in[1]), t.u32(in[2]), uint32(0)
		for i := range 8 {
			if table>>i&1 == 0 {
				continue
			}
			result |= same(a, i>>2) & same(b, i>>1) & same(c, i)
		}
		t.set(out, uint64(result))
	})
}

// same returns the bits in which x equals the lowest bit of bit.
func same(x uint32, bit int) uint32 {
	if bit&1 == 0 {
		return ^x
	}
	return x
}

// makePairMulAdd decodes a·b + c of pairs of bf16, each rounded once.
func makePairMulAdd(d *decoder) {
	out, in := d.out("b32"), d.takes("b32", 3)
	d.then(func(t *thread) {
		result := uint64(0)
		for shift := 0; shift < 32; shift += 16 {
			var x [3]float64
			for i, s := range in {
				x[i] = float64(array.BFloat16(t.u32(s) >> shift).Float32())
			}
			// The product of two bf16 and its sum with a third are exact in float64 for numbers of similar size.
			result |= uint64(array.ToBFloat16(float32(math.FMA(x[0], x[1], x[2])))) << shift
		}
		t.set(out, result)
	})
}

// makeButterfly decodes the shuffle with the thread whose index differs by a mask.
func makeButterfly(d *decoder) {
	out, in, mask := d.out("b32"), d.take("b32"), d.number("u32")
	if clamp := d.number("u32"); clamp != warpThreads-1 {
		d.fail("%s: got %d: want %d", d.op, clamp, warpThreads-1)
	}
	d.wholeWarp()
	d.together(warpThreads, func(c *crew) {
		var values [warpThreads]uint64
		for i := range c.threads {
			values[i] = c.threads[i^int(mask)%warpThreads].get(in)
		}
		for i, t := range c.threads {
			t.set(out, values[i])
		}
	})
}

// makeWarpMultiply decodes mma: a product of bf16 matrices, 16 by 16 and 16 by 8, distributed over a warp's
// threads, added to sums.
func makeWarpMultiply(d *decoder) {
	out, a, b, c := d.group("f32", 4), d.group("b32", 4), d.group("b32", 2), d.group("f32", 4)
	d.together(warpThreads, func(w *crew) {
		var left [16][16]float32
		var right [16][8]float32
		for i, t := range w.threads {
			row, col := i/4, i%4*2
			for n := range 2 {
				half := func(reg int) float32 {
					return array.BFloat16(t.u32(source{reg: reg}) >> (16 * n)).Float32()
				}
				left[row][col+n], left[row+8][col+n] = half(a[0]), half(a[1])
				left[row][col+8+n], left[row+8][col+8+n] = half(a[2]), half(a[3])
				right[col+n][row], right[col+8+n][row] = half(b[0]), half(b[1])
			}
		}
		for i, t := range w.threads {
			for n := range 4 {
				row, col := i/4+n/2*8, i%4*2+n%2
				sum := t.f32(source{reg: c[n]})
				for k := range 16 {
					sum += left[row][k] * right[k][col]
				}
				t.setF32(out[n], sum)
			}
		}
	})
}
