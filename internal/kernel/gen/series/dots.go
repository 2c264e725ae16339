package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dotRows is the number of rows of x in a block; the rows of y are as many as registers allow.
const dotRows = 4

func (s isa) dotCols() int {
	if s.bytes == 64 {
		return 4
	}
	return 2
}

// dots generates sums of products of rows of x and rows of y: a vector of sums for each pair, which is
// added to acc. Rows are stride elements apart and have n elements, whole vectors; there is one block of
// them for each series, nextX and nextY elements apart. The sums of a row of x are accRow elements
// apart.
func (s isa) dots() {
	element, suffix := s.element()
	TEXT("seriesDots"+suffix+s.name, NOSPLIT, "func(series, n int, acc *"+element+", accRow int, x *"+element+
		", nextX int, y *"+element+", nextY, stride int)")
	Pragma("noescape")
	count, n := Load(Param("series"), GP64()), Load(Param("n"), GP64())
	acc, x, y := Load(Param("acc"), GP64()), Load(Param("x"), GP64()), Load(Param("y"), GP64())
	accRow, stride := Load(Param("accRow"), GP64()), Load(Param("stride"), GP64())
	nextX, nextY := Load(Param("nextX"), GP64()), Load(Param("nextY"), GP64())
	for _, r := range []reg.Register{n, accRow, nextX, nextY, stride} {
		SHLQ(s.shift(), r)
	}
	sums := s.sums(acc, accRow, nil)
	stride3, i, px, py := GP64(), GP64(), GP64(), GP64()
	LEAQ(operand.Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	Label("series")
	MOVQ(x, px)
	MOVQ(y, py)
	MOVQ(n, i)
	Label("loop")
	s.dotTerm(sums, px, py, stride, stride3)
	ADDQ(operand.U32(uint32(s.bytes)), px)
	ADDQ(operand.U32(uint32(s.bytes)), py)
	SUBQ(operand.U32(uint32(s.bytes)), i)
	JNZ(operand.LabelRef("loop"))
	ADDQ(nextX, x)
	ADDQ(nextY, y)
	DECQ(count)
	JNZ(operand.LabelRef("series"))
	Load(Param("acc"), acc)
	s.sums(acc, accRow, sums)
	VZEROUPPER()
	RET()
}

// sums loads the vectors of sums at acc, or stores the known ones. It advances acc.
func (s isa) sums(acc, accRow reg.Register, known []reg.VecVirtual) []reg.VecVirtual {
	var out []reg.VecVirtual
	for i := range dotRows {
		for j := range s.dotCols() {
			m := operand.Mem{Base: acc, Disp: j * s.bytes}
			if known == nil {
				out = append(out, s.load(m))
			} else {
				VMOVUPD(known[i*s.dotCols()+j], m)
			}
		}
		ADDQ(accRow, acc)
	}
	return out
}

// dotTerm adds a vector of products to each sum.
func (s isa) dotTerm(sums []reg.VecVirtual, px, py, stride, stride3 reg.Register) {
	row := func(base reg.Register, i int) operand.Mem {
		switch i {
		case 0:
			return operand.Mem{Base: base}
		case 3:
			return operand.Mem{Base: base, Index: stride3, Scale: 1}
		}
		return operand.Mem{Base: base, Index: stride, Scale: uint8(i)}
	}
	var xs []reg.VecVirtual
	for i := range dotRows {
		xs = append(xs, s.load(row(px, i)))
	}
	for j := range s.dotCols() {
		y := s.load(row(py, j))
		for i, x := range xs {
			s.of(VFMADD231PD, VFMADD231PS)(y, x, sums[i*s.dotCols()+j])
		}
	}
}
