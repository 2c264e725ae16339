package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowsAhead is the number of source rows that a spreading copy prefetches ahead. Rows of large matrices are
// pages apart, which the hardware does not prefetch.
const rowsAhead = 8

// spreads generates the spreading copies for both panel widths.
func (t target) spreads(f format) {
	rows, vectors := t.tileShape()
	t.spread("SpreadRows", f, rows)
	t.spread("SpreadCols", f, vectors*t.lanes)
}

// spread generates the packing of several adjacent panels of width elements, from a
// source whose k index is strided: row by row through all panels, since the next row is
// far away.
func (t target) spread(name string, f format, width int) {
	t.text(name+string(f), "dst, src unsafe.Pointer, ld, k, panels, stride int")
	dst := Load(Param("dst"), GP64())
	src := Load(Param("src"), GP64())
	k := Load(Param("k"), GP64())
	panels := Load(Param("panels"), GP64())
	stride := t.scaled("stride")
	ld := t.sourceStride(f)
	later := GP64()
	MOVQ(ld, later)
	SHLQ(Imm(uint64(log2(rowsAhead))), later)
	if t.wide() && width%t.lanes != 0 {
		mask := GP32()
		MOVL(U32(1<<(width%t.lanes)-1), mask)
		KMOVW(mask, maskReg(0))
	}
	to, from, left := GP64(), GP64(), GP64()
	Label("row")
	MOVQ(dst, to)
	MOVQ(src, from)
	MOVQ(panels, left)
	Label("panel")
	for off := 0; off < width*t.sourceSize(f); off += 64 {
		PREFETCHT0(Mem{Base: from, Index: later, Scale: 1, Disp: off})
	}
	t.spreadPanel(f, to, from, width)
	ADDQ(I32(int32(width*t.sourceSize(f))), from)
	ADDQ(stride, to)
	DECQ(left)
	JNZ(LabelRef("panel"))
	ADDQ(ld, src)
	ADDQ(I32(int32(width*t.size)), dst)
	DECQ(k)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// spreadPanel copies one row of one panel. Its last vector is partial: AVX-512 uses a mask; with AVX2 it is
// half a vector.
func (t target) spreadPanel(f format, to, from reg.Register, width int) {
	for i := 0; i < width; i += t.lanes {
		v := t.vec(i / t.lanes)
		src := Mem{Base: from, Disp: i * t.sourceSize(f)}
		dst := Mem{Base: to, Disp: i * t.size}
		switch {
		case width-i >= t.lanes:
			t.widen(f, src, v)
			t.move(v, dst)
		case t.wide():
			t.widenMasked(f, src, nil, 0, nil, v)
			t.storeMasked(v, nil, 0, nil, dst)
		default:
			t.widen(f, src, v.AsX())
			t.move(v.AsX(), dst)
		}
	}
}
