package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pagesAcross is how many pages a kernel multiplies by at once: as many sums as fit into the registers.
const pagesAcross = 4

// across generates the product with pages of 16 columns side by side: all sums of pagesAcross pages at once.
func (t target) across(rows int) {
	TEXT(fmt.Sprintf("ordered%sAcross%d%s", t.elem, rows, t.isa), attr.NOSPLIT,
		fmt.Sprintf("func(k int, y *float32, ldy int, x *float32, ldx int, w *%s, at *int)", t.goType()))
	Pragma("noescape")
	s := state{target: t, rows: rows, vectors: pagesAcross, x3: GP64(), index: GP64()}
	s.x, s.ldx = Load(Param("x"), GP64()), scaled("ldx", 2)
	at, w := Load(Param("at"), GP64()), Load(Param("w"), GP64())
	for p := range pagesAcross {
		base := GP64()
		s.address(base, w, Mem{Base: at, Disp: 8 * p})
		s.bases = append(s.bases, base)
	}
	XORQ(s.index, s.index)
	s.part("term", 0)
	VZEROUPPER()
	RET()
}

// address sets to to the address of the element of w whose number is in memory.
func (t target) address(to, w reg.Register, number Mem) {
	MOVQ(number, to)
	if shift := t.size() / 2; shift > 0 {
		SHLQ(Imm(uint64(shift)), to)
	}
	ADDQ(w, to)
}

// along generates the product with pages one below the other, 64 columns of each: the sums of a page are
// added to y before those of the next.
func (t target) along(rows int) {
	TEXT(fmt.Sprintf("ordered%sAlong%d%s", t.elem, rows, t.isa), attr.NOSPLIT, fmt.Sprintf(
		"func(pages, k int, y *float32, ldy int, x *float32, ldx int, w *%s, at *int, ldw int)", t.goType()))
	Pragma("noescape")
	s := state{target: t, rows: rows, vectors: 64 / t.lanes, x3: GP64()}
	s.x, s.ldx = Load(Param("x"), GP64()), scaled("ldx", 2)
	s.ldw = scaled("ldw", t.size()/2)
	at, pages := Load(Param("at"), GP64()), Load(Param("pages"), GP64())
	s.w = GP64()
	if rows <= prefetchRows {
		s.next = GP64()
	}
	s.thirdRow()
	Label("page")
	w := Load(Param("w"), GP64())
	s.address(s.w, w, Mem{Base: at})
	s.nextPage(at, pages, w)
	s.clear()
	count := Load(Param("k"), GP64())
	Label("term")
	s.term()
	DECQ(count)
	JNZ(LabelRef("term"))
	s.write(0)
	ADDQ(Imm(8), at)
	DECQ(pages)
	JNZ(LabelRef("page"))
	VZEROUPPER()
	RET()
}

// prefetchRows is up to how many rows the next page is prefetched: few rows wait for memory, not for sums.
const prefetchRows = 2

// nextPage finds the address of the next page, or of the last one again.
func (s state) nextPage(at, pages, w reg.Register) {
	if s.next == nil {
		return
	}
	next := GP64()
	LEAQ(Mem{Base: at, Disp: 8}, next)
	CMPQ(pages, Imm(1))
	CMOVQEQ(at, next)
	s.address(s.next, w, Mem{Base: next})
}

// fetchTerm prefetches a term of the next page.
func (s state) fetchTerm() {
	if s.next == nil {
		return
	}
	for line := 0; line < s.vectors*s.lanes*s.size(); line += 64 {
		PREFETCHT0(Mem{Base: s.next, Disp: line})
	}
	ADDQ(s.ldw, s.next)
}
