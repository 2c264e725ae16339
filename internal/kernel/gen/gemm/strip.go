package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// stripState holds the registers of a strip kernel.
type stripState struct {
	target
	m, k, a, row, row3, col, b, ldb, c, ldc, masks reg.Register
	count, pa, pa4, pb                             reg.Register
	// half makes the last vector one of half as many lanes.
	half bool
}

// stripWidths returns the numbers of columns that a strip may have, in half vectors: with AVX-512 the width
// is rounded up to half a vector, with AVX2 to whole vectors.
func (t target) stripWidths() []int {
	if t.wide() {
		return []int{1, 2, 3, 4, 5, 6, 7, 8}
	}
	return []int{2, 4}
}

// stripHeights returns the numbers of rows whose sums are in registers at a time.
func (t target) stripHeights(vectors int) []int {
	switch {
	case t.wide() && vectors == 4:
		return []int{6, 4, 2, 1}
	case !t.wide() && vectors == 2:
		return []int{4, 2, 1}
	}
	return []int{8, 4, 2, 1}
}

// strip generates the product of rows of A in place and a strip of B: as many
// rows at a time as are left, of one to four vectors of columns.
func (t target) strip() {
	t.text("Strip", "m, k int, a unsafe.Pointer, row, col int, b unsafe.Pointer, ldb int, "+
		"c unsafe.Pointer, ldc, cols int, alpha uint64, update Update")
	s := stripState{target: t, count: GP64(), pa: GP64(), pa4: GP64(), pb: GP64(), row3: GP64()}
	s.m = Load(Param("m"), GP64())
	s.k = Load(Param("k"), GP64())
	s.a = Load(Param("a"), GP64())
	s.b = Load(Param("b"), GP64())
	s.c = Load(Param("c"), GP64())
	s.row, s.col, s.ldb, s.ldc = t.scaled("row"), t.scaled("col"), t.scaled("ldb"), t.scaled("ldc")
	LEAQ(Mem{Base: s.row, Index: s.row, Scale: 2}, s.row3)
	cols := Load(Param("cols"), GP64())
	widths := t.stripWidths()
	s.masks = t.masks(cols, (widths[len(widths)-1]+1)/2)
	for i, w := range widths {
		next := "return"
		if i+1 < len(widths) {
			next = fmt.Sprint("width", widths[i+1])
			CMPQ(cols, Imm(uint64(w*t.lanes/2)))
			JG(LabelRef(next))
		}
		s.half = w%2 == 1
		s.bodies(fmt.Sprintf("w%dh", w), (w+1)/2)
		if next != "return" {
			Label(next)
		}
	}
	Label("return")
	VZEROUPPER()
	RET()
}

// bodies generates the loops over many rows, fewer, and single ones.
func (s stripState) bodies(name string, vectors int) {
	heights := s.stripHeights(vectors)
	for i, h := range heights {
		next := "return"
		if i+1 < len(heights) {
			next = fmt.Sprint(name, heights[i+1])
		}
		s.body(fmt.Sprint(name, h), next, h, vectors)
	}
	JMP(LabelRef("return"))
}

// part returns a register as vector j of a row: its lower half if the last vector is
// half.
func (s stripState) part(v reg.VecPhysical, j, vectors int) reg.VecPhysical {
	if s.half && j == vectors-1 {
		return v.AsY().(reg.VecPhysical)
	}
	return v
}

// body generates the loop that processes height rows while that many are left.
func (s stripState) body(name, next string, height, vectors int) {
	Label(name)
	CMPQ(s.m, Imm(uint64(height)))
	JLT(LabelRef(next))
	for i := range height * vectors {
		s.zero(s.vec(i))
	}
	MOVQ(s.a, s.pa)
	if height > 4 {
		LEAQ(Mem{Base: s.a, Index: s.row, Scale: 4}, s.pa4)
	}
	MOVQ(s.b, s.pb)
	MOVQ(s.k, s.count)
	Label(name + "Term")
	s.term(height, vectors)
	DECQ(s.count)
	JNZ(LabelRef(name + "Term"))
	s.write(name, height, vectors)
	SUBQ(Imm(uint64(height)), s.m)
	s.skipRows(height)
	JMP(LabelRef(name))
}

// skipRows advances a by height rows: addressing modes have no scale of six.
func (s stripState) skipRows(height int) {
	if height == 6 {
		LEAQ(Mem{Base: s.a, Index: s.row3, Scale: 2}, s.a)
		return
	}
	LEAQ(Mem{Base: s.a, Index: s.row, Scale: uint8(height)}, s.a)
}

// term adds one term to height rows. The sums are in registers from 0 on, followed by the row of B, then a
// factor; AVX2 has its masks in the last two.
func (s stripState) term(height, vectors int) {
	sums := height * vectors
	rowB := func(j int) reg.VecPhysical { return s.vec(sums + j) }
	for j := range vectors {
		b := s.part(rowB(j), j, vectors)
		s.loadMasked(Mem{Base: s.pb, Disp: j * s.bytes()}, s.masks, j, s.vec(sums+vectors), b)
	}
	ADDQ(s.ldb, s.pb)
	for i := range height {
		f := s.vec(sums + vectors + i%2)
		s.broadcast(s.elementA(i), f)
		for j := range vectors {
			p := func(v reg.VecPhysical) reg.VecPhysical { return s.part(v, j, vectors) }
			s.fma(p(rowB(j)), p(f), p(s.vec(i*vectors+j)))
		}
	}
	ADDQ(s.col, s.pa)
	if height > 4 {
		ADDQ(s.col, s.pa4)
	}
}

func (s stripState) elementA(i int) Mem {
	base := s.pa
	if i >= 4 {
		base = s.pa4
	}
	switch i % 4 {
	case 1:
		return Mem{Base: base, Index: s.row, Scale: 1}
	case 2:
		return Mem{Base: base, Index: s.row, Scale: 2}
	case 3:
		return Mem{Base: base, Index: s.row3, Scale: 1}
	}
	return Mem{Base: base}
}

// write writes height rows and advances c past them.
func (s stripState) write(name string, height, vectors int) {
	w := writer{s.target, s.c, s.ldc, nil, s.masks, height * vectors, s.part}
	s.broadcastScale(s.vec(w.scale))
	update := Load(Param("update"), GP8())
	TESTB(update, update)
	JNZ(LabelRef(name + "Add"))
	for i := range height {
		w.row(i, vectors, overwriteMasked)
		ADDQ(s.ldc, s.c)
	}
	JMP(LabelRef(name + "Written"))
	Label(name + "Add")
	for i := range height {
		w.row(i, vectors, accumulateMasked)
		ADDQ(s.ldc, s.c)
	}
	Label(name + "Written")
}
