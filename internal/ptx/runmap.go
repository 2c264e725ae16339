package ptx

import (
	"encoding/binary"
	"strings"
)

// Names of the instructions that build, publish, acquire and use tensor maps.
const (
	mapField = "tensormap.replace.tile."
	mapBits  = ".shared::cta.b1024."
	putMap   = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
	seeMap   = "fence.proxy.tensormap::generic.acquire.gpu"
	copyBox  = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
)

// mapWord is a field of a tensor map: its offset, its number of values, and their bits. The layout on a
// device is opaque; here the fields follow each other, then a word with a bit for each 4 bytes that were set,
// then zeros.
type mapWord struct {
	at, values int
	bits       string
}

var mapWords = map[string]mapWord{
	"global_address": {0, 1, "b64"}, "global_stride": {8, 1, "b64"}, "rank": {16, 1, "b32"}, "box_dim": {20, 2,
		"b32"}, "global_dim": {28, 2, "b32"},
	"element_stride": {36, 2, "b32"}, "elemtype": {44, 1, "b32"}, "interleave_layout": {48, 1,
		"b32"}, "swizzle_mode": {52, 1, "b32"}, "fill_mode": {56, 1, "b32"},
}

// mapSetAt is the offset of the word of bits, mapSet its value when all fields are set.
const mapSetAt, mapSet = 60, 1<<15 - 1 - 1<<1 - 1<<3

// makeReplace decodes tensormap.replace.tile.FIELD.shared::cta.b1024.BITS [map], which, value; a field of one
// value has no which, except for strides.
func makeReplace(d *decoder) {
	name, bits, _ := strings.Cut(strings.TrimPrefix(d.op, mapField), mapBits)
	word, ok := mapWords[name]
	if !ok || word.bits != bits {
		d.fail("%s: unknown instruction", d.op)
	}
	place, which := d.place("u32"), 0
	if word.values > 1 || name == "global_stride" {
		which = int(d.number("u32"))
	}
	if which >= word.values {
		d.fail("%s: got value %d: want 0 to %d", d.op, which, word.values-1)
	}
	value := d.take(bits)
	d.then(func(t *thread) {
		at := word.at + 4*which
		m := t.sharedOut(uint32(t.address(place)), mapBytes)
		if bits == "b64" {
			binary.LittleEndian.PutUint64(m[at:], t.get(value))
		} else {
			binary.LittleEndian.PutUint32(m[at:], t.u32(value))
		}
		done := m[mapSetAt:]
		binary.LittleEndian.PutUint32(done, binary.LittleEndian.Uint32(done)|1<<(at/4))
	})
}

// wholeMap decodes the size of a map.
func (d *decoder) wholeMap() {
	if n := d.number("u32"); n != mapBytes {
		d.fail("%s: got %d bytes: want %d", d.op, n, mapBytes)
	}
}

// makeCopyMap decodes the copy of a map to global memory, where copies can use it.
func makeCopyMap(d *decoder) {
	to, from := d.place("u64"), d.place("u32")
	d.wholeMap()
	d.together(warpThreads, func(c *crew) {
		t := c.threads[0]
		there, here := t.address(to), uint32(t.address(from))
		for _, o := range c.threads {
			if o.address(to) != there || uint32(o.address(from)) != here {
				o.fault("addresses %#x and %#x: want %#x and %#x as the warp's first thread has", o.address(to),
					o.address(from), there, here)
			}
		}
		copy(t.global(there, mapBytes), t.shared(here, mapBytes))
		t.unit.pair.released[there]++
	})
}

// makeSeeMap decodes the fence after which a thread may use a published map.
func makeSeeMap(d *decoder) {
	place := d.place("u64")
	d.wholeMap()
	d.then(func(t *thread) {
		if t.seen == nil {
			t.seen = map[uint64]int{}
		}
		at := t.address(place)
		t.seen[at] = t.unit.pair.released[at]
	})
}

// boxes is a decoded tensor map, as a copy uses it.
type boxes struct {
	address, stride              uint64
	cols, rows, boxCols, boxRows uint32
}

// boxes decodes the tensor map at an address.
func (t *thread) boxes(address uint64) boxes {
	m := t.global(address, mapBytes)
	word := func(name string, i int) uint32 { return binary.LittleEndian.Uint32(m[mapWords[name].at+4*i:]) }
	b := boxes{
		address: binary.LittleEndian.Uint64(m),
		stride:  binary.LittleEndian.Uint64(m[mapWords["global_stride"].at:]),
		cols:    word("global_dim", 0), rows: word("global_dim", 1), boxCols: word("box_dim",
			0), boxRows: word("box_dim", 1),
	}
	released := t.unit.pair.released[address]
	const bf16, rows128 = 10, 3
	switch {
	case released == 0:
		t.fault("no map was put at %#x", address)
	case t.seen[address] != released:
		t.fault("the thread has not seen the map at %#x: want a fence that acquires it", address)
	case binary.LittleEndian.Uint32(m[mapSetAt:]) != mapSet:
		t.fault("fields of the map are not set: got %#x, want %#x", binary.LittleEndian.Uint32(m[mapSetAt:]),
			mapSet)
	case strings.Trim(string(m[mapSetAt+4:]), "\x00") != "":
		t.fault("the map was not zero before its fields were set")
	case word("rank", 0) != 1 || word("elemtype", 0) != bf16 || word("swizzle_mode", 0) != rows128 ||
		word("interleave_layout", 0) != 0 || word("fill_mode", 0) != 0:
		t.fault("the map is of another kind than 2 dims of bf16 in rows of 128 bytes")
	case word("element_stride", 0) != 1 || word("element_stride", 1) != 1 || b.boxCols != 64 || b.boxRows < 1 ||
		b.boxRows > 256:
		t.fault("the map has boxes of %d by %d: want up to 256 rows of 64 next to each other", b.boxRows, b.boxCols)
	case b.address%16 != 0 || b.stride%16 != 0 || b.stride >= 1<<40 || b.cols == 0 || b.rows == 0:
		t.fault("the map has %d by %d numbers, rows of %d bytes, from %#x: want some, and multiples of 16", b.rows,
			b.cols, b.stride, b.address)
	}
	return b
}
