// Command series generates kernels of tanh's derivatives along a line, and of the gradients of a layer's
// weights.
package main

import (
	"fmt"
	"math"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is an instruction set with vectors of float32 or float64.
type isa struct {
	name   string
	bytes  int
	double bool
}

func main() {
	ConstraintExpr("!noasm")
	sets := []isa{{"AVX2", 32, true}, {"AVX512", 64, true}, {"AVX2", 32, false}, {"AVX512", 64, false}}
	for _, s := range sets {
		s.first()
		s.second()
		s.firstGrad()
		s.secondGrad()
		s.dots()
	}
	Generate()
}

// element returns the element type in Go, and in names.
func (s isa) element() (goName, name string) {
	if s.double {
		return "float64", "F64"
	}
	return "float32", "F32"
}

// of returns the instruction for doubles or for singles.
func (s isa) of(double, single func(...operand.Op)) func(...operand.Op) {
	if s.double {
		return double
	}
	return single
}

func (s isa) reg() reg.VecVirtual {
	if s.bytes == 64 {
		return ZMM()
	}
	return YMM()
}

// binary emits an instruction of two operands and returns its result.
func (s isa) binary(f func(...operand.Op), a, b operand.Op) reg.VecVirtual {
	d := s.reg()
	f(b, a, d)
	return d
}

func (s isa) add(a, b operand.Op) reg.VecVirtual { return s.binary(s.of(VADDPD, VADDPS), a, b) }
func (s isa) sub(a, b operand.Op) reg.VecVirtual { return s.binary(s.of(VSUBPD, VSUBPS), a, b) }
func (s isa) mul(a, b operand.Op) reg.VecVirtual { return s.binary(s.of(VMULPD, VMULPS), a, b) }
func (s isa) div(a, b operand.Op) reg.VecVirtual { return s.binary(s.of(VDIVPD, VDIVPS), a, b) }
func (s isa) and(a, b operand.Op) reg.VecVirtual { return s.binary(s.of(VANDPD, VANDPS), a, b) }
func (s isa) or(a, b operand.Op) reg.VecVirtual  { return s.binary(s.of(VORPD, VORPS), a, b) }

// number returns a register with x in every lane.
func (s isa) number(x float64) reg.VecVirtual {
	if s.double {
		return s.bits(math.Float64bits(x))
	}
	d := s.reg()
	VBROADCASTSS(constant(uint64(math.Float32bits(float32(x))), operand.U32(math.Float32bits(float32(x)))), d)
	return d
}

// constants holds the addresses of constants that have been used.
var constants = map[uint64]operand.Mem{}

func constant(bits uint64, value operand.Constant) operand.Mem {
	m, ok := constants[bits]
	if !ok {
		m = ConstData(fmt.Sprintf("tanhConst%d", len(constants)), value)
		constants[bits] = m
	}
	return m
}

func (s isa) bits(x uint64) reg.VecVirtual {
	d := s.reg()
	VBROADCASTSD(constant(x, operand.U64(x)), d)
	return d
}

// loop generates a kernel over n elements, which are whole vectors. The body gets the address of the current
// vector in each of the arrays that params names.
func (s isa) loop(name, params string, body func(at func(name string) operand.Mem)) {
	element, suffix := s.element()
	TEXT(name+suffix+s.name, NOSPLIT, "func(n int, "+params+" *"+element+")")
	Pragma("noescape")
	n, i := Load(Param("n"), GP64()), GP64()
	pointers := map[string]reg.Register{}
	for _, p := range strings.Split(params, ", ") {
		pointers[p] = Load(Param(p), GP64())
	}
	SHLQ(s.shift(), n)
	XORQ(i, i)
	Label("loop")
	body(func(p string) operand.Mem { return operand.Mem{Base: pointers[p], Index: i, Scale: 1} })
	ADDQ(operand.U32(uint32(s.bytes)), i)
	CMPQ(i, n)
	JLT(operand.LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// shift returns the logarithm of an element's bytes.
func (s isa) shift() operand.U8 {
	if s.double {
		return 3
	}
	return 2
}

func (s isa) load(m operand.Mem) reg.VecVirtual {
	d := s.reg()
	VMOVUPD(m, d)
	return d
}

// slope emits 1 - y².
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
