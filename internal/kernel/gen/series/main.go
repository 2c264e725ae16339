// Command series generates float64 kernels of tanh and of its derivatives along a line.
package main

import (
	"fmt"
	"math"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is an instruction set.
type isa struct {
	name  string
	bytes int
}

func main() {
	ConstraintExpr("!noasm")
	for _, s := range []isa{{"AVX2", 32}, {"AVX512", 64}} {
		s.tanh()
		s.first()
		s.second()
		s.firstGrad()
		s.secondGrad()
	}
	Generate()
}

func (s isa) reg() reg.VecVirtual {
	if s.bytes == 64 {
		return ZMM()
	}
	return YMM()
}

// binary is an instruction of two operands and a result.
func (s isa) binary(f func(...operand.Op), a, b operand.Op) reg.VecVirtual {
	d := s.reg()
	f(b, a, d)
	return d
}

func (s isa) add(a, b operand.Op) reg.VecVirtual { return s.binary(VADDPD, a, b) }
func (s isa) sub(a, b operand.Op) reg.VecVirtual { return s.binary(VSUBPD, a, b) }
func (s isa) mul(a, b operand.Op) reg.VecVirtual { return s.binary(VMULPD, a, b) }
func (s isa) div(a, b operand.Op) reg.VecVirtual { return s.binary(VDIVPD, a, b) }
func (s isa) and(a, b operand.Op) reg.VecVirtual { return s.binary(VANDPD, a, b) }
func (s isa) or(a, b operand.Op) reg.VecVirtual  { return s.binary(VORPD, a, b) }

// number is a register with x in every lane.
func (s isa) number(x float64) reg.VecVirtual { return s.bits(math.Float64bits(x)) }

// constants is where numbers lie that have been used.
var constants = map[uint64]operand.Mem{}

func (s isa) bits(x uint64) reg.VecVirtual {
	m, ok := constants[x]
	if !ok {
		m = ConstData(fmt.Sprintf("tanhConst%d", len(constants)), operand.U64(x))
		constants[x] = m
	}
	d := s.reg()
	VBROADCASTSD(m, d)
	return d
}

// loop generates a kernel over n elements, which are whole vectors. The body gets the place of the vector in
// each of the arrays that params names.
func (s isa) loop(name, params string, body func(at func(name string) operand.Mem)) {
	TEXT(name+"F64"+s.name, NOSPLIT, "func(n int, "+params+" *float64)")
	Pragma("noescape")
	n, i := Load(Param("n"), GP64()), GP64()
	pointers := map[string]reg.Register{}
	for _, p := range strings.Split(params, ", ") {
		pointers[p] = Load(Param(p), GP64())
	}
	SHLQ(operand.U8(3), n)
	XORQ(i, i)
	Label("loop")
	body(func(p string) operand.Mem { return operand.Mem{Base: pointers[p], Index: i, Scale: 1} })
	ADDQ(operand.U32(uint32(s.bytes)), i)
	CMPQ(i, n)
	JLT(operand.LabelRef("loop"))
	VZEROUPPER()
	RET()
}

func (s isa) load(m operand.Mem) reg.VecVirtual {
	d := s.reg()
	VMOVUPD(m, d)
	return d
}

// The greatest argument that matters to tanh, and the parts of a logarithm: exact products, and the rest.
const (
	tanhMost  = 20
	ln2High   = 0x1.62e42feep-1
	ln2Low    = 0x1.a39ef35793c76p-33
	roundBits = 0x1.8p52 // added and taken off again it leaves a whole number, whose bits are the lowest ones
)

// tanh is t/(t+2) with t = e^2x - 1 for positive x. That is 2^k·p + (2^k - 1), with p = e^r - 1 by its series
// for the r that is left of 2x: it keeps all digits of small x.
func (s isa) tanh() {
	s.loop("tanh", "dst, x", func(at func(string) operand.Mem) {
		x := s.load(at("x"))
		sign := s.and(x, s.bits(1<<63))
		size := s.and(x, s.bits(1<<63-1))
		least := s.reg()
		VMINPD(size, s.number(tanhMost), least) // NaN stays
		v := s.add(least, least)
		whole := s.add(s.mul(v, s.number(math.Log2E)), s.number(roundBits))
		power := s.reg()
		VPSLLQ(operand.U8(52), whole, power)
		scale := s.reg()
		VPADDQ(s.number(1), power, scale)
		k := s.sub(whole, s.number(roundBits))
		VFNMADD231PD(s.number(ln2High), k, v)
		VFNMADD231PD(s.number(ln2Low), k, v)
		p := s.expm1(v)
		t := s.sub(scale, s.number(1))
		VFMADD231PD(scale, p, t)
		y := s.div(t, s.add(t, s.number(2)))
		VMOVUPD(s.or(y, sign), at("dst"))
	})
}

// expm1Terms is how many powers of r up to ln 2/2 count beside the first: r^14/14! does not.
const expm1Terms = 13

// expm1 is e^r - 1.
func (s isa) expm1(r reg.VecVirtual) reg.VecVirtual {
	q := s.number(factor(expm1Terms + 1))
	for n := expm1Terms; n >= 2; n-- {
		VFMADD213PD(s.number(factor(n)), r, q)
	}
	p := s.reg()
	VMOVUPD(r, p)
	VFMADD231PD(s.mul(r, r), q, p)
	return p
}

// factor is 1/n!.
func factor(n int) float64 {
	f := 1.0
	for i := 2; i <= n; i++ {
		f *= float64(i)
	}
	return 1 / f
}

// slope is 1 - y².
func (s isa) slope(y reg.VecVirtual) reg.VecVirtual { return s.sub(s.number(1), s.mul(y, y)) }

func (s isa) first() {
	s.loop("tanhFirst", "y1, y, x1", func(at func(string) operand.Mem) {
		VMOVUPD(s.mul(s.slope(s.load(at("y"))), at("x1")), at("y1"))
	})
}

func (s isa) second() {
	s.loop("tanhSecond", "y1, y2, y, x1, x2", func(at func(string) operand.Mem) {
		y, x1 := s.load(at("y")), s.load(at("x1"))
		z := s.slope(y)
		first := s.mul(z, x1)
		VMOVUPD(first, at("y1"))
		bend := s.mul(s.mul(s.add(y, y), first), x1)
		VMOVUPD(s.sub(s.mul(z, at("x2")), bend), at("y2"))
	})
}

func (s isa) firstGrad() {
	s.loop("tanhFirstGrad", "dy, d1, y, x1, g1", func(at func(string) operand.Mem) {
		y, g := s.load(at("y")), s.load(at("g1"))
		VMOVUPD(s.mul(s.slope(y), g), at("d1"))
		part := s.mul(s.mul(s.add(y, y), g), at("x1"))
		VMOVUPD(s.sub(s.load(at("dy")), part), at("dy"))
	})
}

func (s isa) secondGrad() {
	s.loop("tanhSecondGrad", "dy, d1, d2, y, x1, x2, g1, g2", func(at func(string) operand.Mem) {
		y, v, a, b := s.load(at("y")), s.load(at("x1")), s.load(at("g1")), s.load(at("g2"))
		square := s.mul(y, y)
		z := s.sub(s.number(1), square)
		VMOVUPD(s.mul(z, b), at("d2"))
		vb := s.mul(v, b)
		VMOVUPD(s.mul(z, s.sub(a, s.mul(s.mul(y, s.number(4)), vb))), at("d1"))
		bend := s.mul(s.mul(vb, v), s.sub(s.number(1), s.mul(square, s.number(3))))
		part := s.add(s.mul(y, s.add(s.mul(a, v), s.mul(b, at("x2")))), bend)
		VMOVUPD(s.sub(s.load(at("dy")), s.add(part, part)), at("dy"))
	})
}
