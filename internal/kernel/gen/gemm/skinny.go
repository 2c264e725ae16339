package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// axpy generates the weighted sum of eight rows onto a ninth.
func (t target) axpy() {
	t.text("Axpy", "n int, y, x, b unsafe.Pointer, ldb int")
	n := Load(Param("n"), GP64())
	y := Load(Param("y"), GP64())
	x := Load(Param("x"), GP64())
	b := Load(Param("b"), GP64())
	ldb := t.scaled("ldb")
	ldb3, b4 := GP64(), GP64()
	LEAQ(Mem{Base: ldb, Index: ldb, Scale: 2}, ldb3)
	LEAQ(Mem{Base: b, Index: ldb, Scale: 4}, b4)
	for i := range 8 {
		t.broadcast(Mem{Base: x, Disp: i * t.size}, t.vec(i))
	}
	row := func(i int) Mem {
		m := Mem{Base: []reg.Register{b, b4}[i/4]}
		if i%4 > 0 {
			m.Index, m.Scale = []reg.Register{ldb, ldb, ldb3}[i%4-1], []uint8{1, 2, 1}[i%4-1]
		}
		return m
	}
	SUBQ(Imm(uint64(t.lanes)), n)
	JLT(LabelRef("rest"))
	Label("full")
	t.move(Mem{Base: y}, t.vec(8))
	for i := range 8 {
		t.fma(row(i), t.vec(i), t.vec(8))
	}
	t.move(t.vec(8), Mem{Base: y})
	for _, p := range []reg.Register{y, b, b4} {
		ADDQ(Imm(uint64(t.bytes())), p)
	}
	SUBQ(Imm(uint64(t.lanes)), n)
	JGE(LabelRef("full"))
	Label("rest")
	ADDQ(Imm(uint64(t.lanes)), n)
	JZ(LabelRef("done"))
	masks := t.masks(n, 1)
	t.loadMasked(Mem{Base: y}, masks, 0, t.vec(9), t.vec(8))
	for i := range 8 {
		t.loadMasked(row(i), masks, 0, t.vec(9), t.vec(10))
		t.fma(t.vec(10), t.vec(i), t.vec(8))
	}
	t.storeMasked(t.vec(8), masks, 0, t.vec(9), Mem{Base: y})
	Label("done")
	VZEROUPPER()
	RET()
}

// dot generates the dot products of one row with four others. Each has two sums, so that additions do not
// depend on each other.
func (t target) dot() {
	t.text("Dot", "k int, y, x, b unsafe.Pointer, ldb int")
	k := Load(Param("k"), GP64())
	y := Load(Param("y"), GP64())
	x := Load(Param("x"), GP64())
	b := Load(Param("b"), GP64())
	ldb := t.scaled("ldb")
	ldb3 := GP64()
	LEAQ(Mem{Base: ldb, Index: ldb, Scale: 2}, ldb3)
	for i := range 8 {
		t.zero(t.vec(i))
	}
	row := func(i, disp int) Mem {
		if i == 0 {
			return Mem{Base: b, Disp: disp}
		}
		return Mem{Base: b, Index: []reg.Register{ldb, ldb, ldb3}[i-1], Scale: []uint8{1, 2, 1}[i-1], Disp: disp}
	}
	SUBQ(Imm(uint64(2*t.lanes)), k)
	JLT(LabelRef("rest"))
	Label("full")
	for u := range 2 {
		t.move(Mem{Base: x, Disp: u * t.bytes()}, t.vec(8+u))
		for i := range 4 {
			t.fma(row(i, u*t.bytes()), t.vec(8+u), t.vec(4*u+i))
		}
	}
	ADDQ(Imm(uint64(2*t.bytes())), x)
	ADDQ(Imm(uint64(2*t.bytes())), b)
	SUBQ(Imm(uint64(2*t.lanes)), k)
	JGE(LabelRef("full"))
	Label("rest")
	ADDQ(Imm(uint64(2*t.lanes)), k)
	JZ(LabelRef("reduce"))
	masks := t.masks(k, 2)
	for u := range 2 {
		t.loadMasked(Mem{Base: x, Disp: u * t.bytes()}, masks, u, t.vec(9), t.vec(8))
		for i := range 4 {
			t.loadMasked(row(i, u*t.bytes()), masks, u, t.vec(9), t.vec(10))
			t.fma(t.vec(10), t.vec(8), t.vec(4*u+i))
		}
	}
	Label("reduce")
	for i := range 4 {
		t.fold(i)
	}
	t.storeSums(y)
	VZEROUPPER()
	RET()
}

// fold adds up the two sums of row i to 128 bits in X register i.
func (t target) fold(i int) {
	v, half := t.vec(i), reg.Y11
	t.add(t.vec(4+i), v, v)
	if t.wide() {
		VEXTRACTF64X4(Imm(1), v, half)
		t.add(half, v.AsY(), v.AsY())
	}
	VEXTRACTF128(Imm(1), v.AsY(), half.AsX())
	t.add(half.AsX(), v.AsX(), v.AsX())
}

// storeSums adds the four folded sums to y.
func (t target) storeSums(y reg.Register) {
	x := func(i int) reg.Register { return t.vec(i).AsX() }
	if t.single() {
		VHADDPS(x(1), x(0), x(0))
		VHADDPS(x(3), x(2), x(2))
		VHADDPS(x(2), x(0), x(0))
		VADDPS(Mem{Base: y}, x(0), x(0))
		VMOVUPS(x(0), Mem{Base: y})
		return
	}
	for i := 0; i < 4; i += 2 {
		VHADDPD(x(i+1), x(i), x(i))
		VADDPD(Mem{Base: y, Disp: 8 * i}, x(i), x(i))
		VMOVUPD(x(i), Mem{Base: y, Disp: 8 * i})
	}
}
