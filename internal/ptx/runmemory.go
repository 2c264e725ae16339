package ptx

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// address returns the address of a memory operand.
func (t *thread) address(p place) uint64 { return t.get(p.address) + p.bytes }

// global returns bytes of global memory.
func (t *thread) global(address uint64, bytes int) []byte {
	p := t.unit.pair
	i, from := int(address>>arrayShift)-1, int(address&(1<<arrayShift-1))
	switch {
	case i < 0 || i >= len(p.memory):
		t.fault("address %#x: want one of a parameter's memory", address)
	case from+bytes > len(p.memory[i]):
		t.fault("%d bytes from byte %d of parameter %d: want them within its %d", bytes, from, i, len(p.memory[i]))
	case from%bytes != 0:
		t.fault("%d bytes from byte %d of parameter %d: want a multiple of %d", bytes, from, i, bytes)
	default:
		return p.memory[i][from : from+bytes]
	}
	return p.nowhere[:bytes]
}

// offset splits a cluster address into the block's rank and the offset in its shared memory.
func offset(address uint32) (rank int, at uint32) {
	return int(address >> rankShift), address&(1<<rankShift-1) - keptBytes
}

// within returns the offset of bytes in the block's own shared memory; they must be aligned.
func (t *thread) within(address uint32, bytes, align int) (at uint32, ok bool) {
	rank, at := offset(address)
	switch {
	case rank != t.unit.rank:
		t.fault("address %#x: want one of the block's own memory", address)
	case int(at)+bytes > len(t.unit.memory):
		t.fault("%d bytes from byte %d of the block's memory: want them within its %d", bytes, int32(at),
			len(t.unit.memory))
	case int(address)%align != 0:
		t.fault("address %#x: want a multiple of %d", address, align)
	default:
		return at, true
	}
	return 0, false
}

// shared returns bytes of shared memory; they must be aligned to their size.
func (t *thread) shared(address uint32, bytes int) []byte {
	at, ok := t.within(address, bytes, bytes)
	if !ok {
		return t.unit.pair.nowhere[:bytes]
	}
	return t.unit.memory[at : int(at)+bytes]
}

// sharedOut returns bytes to be written, which must not overlap a barrier.
func (t *thread) sharedOut(address uint32, bytes int) []byte {
	b := t.shared(address, bytes)
	_, at := offset(address)
	t.unit.spares(t, at, bytes)
	return b
}

// spares checks that bytes of shared memory that a thread has written do not overlap a barrier.
func (u *unit) spares(t *thread, at uint32, bytes int) {
	for _, b := range u.barriers {
		if int(at) < int(b.at)+8 && int(b.at) < int(at)+bytes {
			t.fault("%d bytes from byte %d of the block's memory: want none of the barrier's at byte %d", bytes, at,
				b.at)
			return
		}
	}
}

func makeParam(d *decoder) {
	out, name := d.out("u64"), d.inBrackets(d.next("a parameter"))
	number, ok := strings.CutPrefix(name, "p")
	i, err := strconv.ParseUint(number, 10, 31)
	if !ok || err != nil || int(i) >= d.program.params {
		d.fail("%s: got %q: want one of %d parameters", d.op, name, d.program.params)
	}
	d.then(func(t *thread) { t.set(out, (i+1)<<arrayShift) })
}

func makeLoadGlobal(d *decoder) {
	out, from := d.group("f32", 2), d.place("u64")
	d.then(func(t *thread) { t.load(out, t.global(t.address(from), 8)) })
}

func makeLoadShared(d *decoder) {
	out, from := d.group("b32", 4), d.place("u32")
	d.then(func(t *thread) { t.load(out, t.shared(uint32(t.address(from)), 16)) })
}

// load sets registers from bytes, store writes them.
func (t *thread) load(out []int, b []byte) {
	for i, reg := range out {
		t.set(reg, uint64(binary.LittleEndian.Uint32(b[4*i:])))
	}
}

func (t *thread) store(b []byte, in []int) {
	for i, reg := range in {
		binary.LittleEndian.PutUint32(b[4*i:], t.u32(source{reg: reg}))
	}
}

func makeStoreShared(d *decoder) {
	to, in := d.place("u32"), d.take("b32")
	d.then(func(t *thread) {
		binary.LittleEndian.PutUint32(t.sharedOut(uint32(t.address(to)), 4), t.u32(in))
	})
}

func makeStoreGlobal(d *decoder) {
	to, in := d.place("u64"), d.group("b32", 4)
	policy := d.policy()
	d.then(func(t *thread) {
		policy(t)
		t.store(t.global(t.address(to), 16), in)
	})
}

// makeMapAddress decodes mapa, which maps an address to the same offset in a block of the cluster.
func makeMapAddress(d *decoder) {
	out, address, rank := d.out("u32"), d.take("u32"), d.take("u32")
	d.then(func(t *thread) {
		r := t.u32(rank)
		if r >= pairUnits {
			t.fault("block %d of a pair", r)
		}
		t.set(out, uint64(r<<rankShift|t.u32(address)&(1<<rankShift-1)))
	})
}
