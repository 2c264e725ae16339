// Command ordered generates the products of package kernel whose order of summation does not depend on the
// number of rows.
//
// A kernel multiplies 1 to 6 rows of x by a strip of w, 16 or 64 columns, and keeps all sums in registers:
// AVX-512 6 rows of 4 vectors, AVX2 1 row of 8, 2 rows of 4 or 6 rows of 2. Every sum is one chain over the
// terms, so neither rows nor registers change it. Attention has its strips in pages (AVX-512 only).
package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const maxRows = 6

// target is an instruction set and the format of weights.
type target struct {
	isa, elem string
	lanes     int
}

var targets = []target{{"AVX512", "F32", 16}, {"AVX512", "BF16", 16}, {"AVX512", "I8", 16},
	{"AVX2", "F32", 8}, {"AVX2", "BF16", 8}, {"AVX2", "I8", 8}}

func main() {
	ConstraintExpr("!noasm")
	for _, t := range targets {
		for _, cols := range []int{16, 64} {
			for rows := 1; rows <= maxRows; rows++ {
				t.product(rows, cols)
			}
		}
		if t.wide() {
			for rows := 1; rows <= maxRows; rows++ {
				t.across(rows)
				t.along(rows)
			}
		}
	}
	Generate()
}

func (t target) wide() bool { return t.isa == "AVX512" }

func (t target) goType() string {
	return map[string]string{"F32": "float32", "BF16": "uint16", "I8": "int8"}[t.elem]
}

func (t target) size() int { return map[string]int{"F32": 4, "BF16": 2, "I8": 1}[t.elem] }

// vectors returns the number of column vectors that are summed at once.
func (t target) vectors(rows, cols int) int {
	all := cols / t.lanes
	switch {
	case t.wide():
		return all
	case rows == 1:
		return min(all, 8)
	case rows == 2:
		return min(all, 4)
	}
	return min(all, 2)
}

// state holds the registers of a kernel: first the sums, then a row of w, then a factor.
type state struct {
	target
	rows, vectors      int
	x, x3, ldx, w, ldw reg.Register
	bases              []reg.Register // of each vector's page, with a common index; nil where w is one matrix
	index              reg.Register
	next               reg.Register // the page to prefetch; nil for none
}

func (t target) product(rows, cols int) {
	TEXT(fmt.Sprintf("ordered%sx%dx%d%s", t.elem, rows, cols, t.isa), attr.NOSPLIT,
		fmt.Sprintf("func(k int, y *float32, ldy int, x *float32, ldx int, w *%s, ldw int)", t.goType()))
	Pragma("noescape")
	v := t.vectors(rows, cols)
	for at := 0; at < cols/t.lanes; at += v {
		s := state{target: t, rows: rows, vectors: v, x3: GP64()}
		s.x, s.w = Load(Param("x"), GP64()), Load(Param("w"), GP64())
		s.ldx, s.ldw = scaled("ldx", 2), scaled("ldw", t.size()/2)
		if at > 0 {
			ADDQ(Imm(uint64(at*t.lanes*t.size())), s.w)
		}
		s.part(fmt.Sprintf("part%d", at), at)
	}
	VZEROUPPER()
	RET()
}

// scaled returns a parameter shifted to the left.
func scaled(name string, by int) reg.Register {
	r := Load(Param(name), GP64())
	SHLQ(Imm(uint64(by)), r)
	return r
}

// part sums some column vectors, from vector at on.
func (s state) part(label string, at int) {
	s.clear()
	s.thirdRow()
	count := Load(Param("k"), GP64())
	Label(label)
	s.term()
	DECQ(count)
	JNZ(LabelRef(label))
	s.write(at)
}

// clear zeroes the sums.
func (s state) clear() {
	for i := range s.rows * s.vectors {
		s.zero(s.vec(i))
	}
}

// thirdRow finds the address of row 3 of x, from which the last rows are addressed.
func (s state) thirdRow() {
	if s.rows > 3 {
		LEAQ(Mem{Base: s.ldx, Index: s.ldx, Scale: 2}, s.x3)
		ADDQ(s.x, s.x3)
	}
}

// term adds one term to every sum.
func (s state) term() {
	sums := s.rows * s.vectors
	if s.rows == 1 {
		s.termOfOne()
		return
	}
	for j := range s.vectors {
		s.load(j, s.vec(sums+j))
	}
	s.nextTerm()
	f := s.vec(sums + s.vectors)
	for i := range s.rows {
		VBROADCASTSS(s.element(i), f)
		for j := range s.vectors {
			VFMADD231PS(s.vec(sums+j), f, s.vec(i*s.vectors+j))
		}
	}
	ADDQ(Imm(4), s.x)
	if s.rows > 3 {
		ADDQ(Imm(4), s.x3)
	}
}

// termOfOne is term for a single row, whose sums leave few free registers.
func (s state) termOfOne() {
	f := s.vec(s.vectors)
	VBROADCASTSS(Mem{Base: s.x}, f)
	for j := range s.vectors {
		w := s.vec(s.vectors + 1 + j%4)
		s.load(j, w)
		VFMADD231PS(w, f, s.vec(j))
	}
	s.nextTerm()
	ADDQ(Imm(4), s.x)
}

// nextTerm advances to the next row of w.
func (s state) nextTerm() {
	if s.bases != nil {
		ADDQ(Imm(uint64(s.lanes*s.size())), s.index)
		return
	}
	s.fetchTerm()
	ADDQ(s.ldw, s.w)
}

// load loads and widens vector j of a row of w.
func (s state) load(j int, to reg.VecPhysical) {
	m := Mem{Base: s.w, Disp: j * s.lanes * s.size()}
	if s.bases != nil {
		m = Mem{Base: s.bases[j], Index: s.index, Scale: 1}
	}
	switch s.elem {
	case "F32":
		VMOVUPS(m, to)
	case "BF16":
		VPMOVZXWD(m, to)
		VPSLLD(Imm(16), to, to)
	case "I8":
		VPMOVSXBD(m, to)
		VCVTDQ2PS(to, to)
	}
}

// element returns the address of row i's factor.
func (s state) element(i int) Mem {
	base := s.x
	if i >= 3 {
		base = s.x3
	}
	if i%3 == 0 {
		return Mem{Base: base}
	}
	return Mem{Base: base, Index: s.ldx, Scale: uint8(i % 3)}
}

// write adds the sums to y.
func (s state) write(at int) {
	y, ldy := Load(Param("y"), GP64()), scaled("ldy", 2)
	for i := range s.rows {
		for j := range s.vectors {
			m := Mem{Base: y, Disp: (at + j) * s.lanes * 4}
			VADDPS(m, s.vec(i*s.vectors+j), s.vec(i*s.vectors+j))
			VMOVUPS(s.vec(i*s.vectors+j), m)
		}
		if i+1 < s.rows {
			ADDQ(ldy, y)
		}
	}
}

func (t target) zero(v reg.Register) {
	if t.wide() {
		VPXORQ(v, v, v)
		return
	}
	VXORPS(v, v, v)
}

// vec returns vector register i.
func (t target) vec(i int) reg.VecPhysical {
	if t.wide() {
		return []reg.VecPhysical{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
			reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
			reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23,
			reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31}[i]
	}
	return []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7,
		reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15}[i]
}
