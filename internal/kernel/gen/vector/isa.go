package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vec is a register of the instruction set's full width.
type vec = reg.VecVirtual

// isa is an instruction set: the methods emit the same operation in either. An
// operand that is an operand.Op may be a vector or a memory constant.
type isa struct {
	name  string
	width int // float32 lanes
}

func (s isa) wide() bool { return s.width == 16 }

func (s isa) reg() vec {
	if s.wide() {
		return ZMM()
	}
	return YMM()
}

// broadcast returns a register with the float32 in memory in every lane.
func (s isa) broadcast(m operand.Op) vec {
	v := s.reg()
	VBROADCASTSS(m, v)
	return v
}

// load returns a register holding the operand.
func (s isa) load(o operand.Op) vec {
	k, ok := o.(constant)
	if ok && s.wide() {
		return s.broadcast(k.Mem)
	}
	v := s.reg()
	if ok {
		o = k.Mem
	}
	VMOVUPS(o, v)
	return v
}

// instruction is one of avo's variadic constructors.
type instruction func(ops ...operand.Op)

// with emits the instruction with first operand o. AVX-512 takes a constant by
// broadcasting one lane, since the linker does not align data to 64 bytes and a
// load across cache lines costs double.
func (s isa) with(plain, broadcasting instruction, o operand.Op, rest ...operand.Op) {
	k, ok := o.(constant)
	switch {
	case !ok:
		plain(append([]operand.Op{o}, rest...)...)
	case s.wide():
		broadcasting(append([]operand.Op{k.Mem}, rest...)...)
	default:
		plain(append([]operand.Op{k.Mem}, rest...)...)
	}
}

// into is with for instructions with a new destination.
func (s isa) into(plain, broadcasting instruction, o operand.Op, rest ...operand.Op) vec {
	d := s.reg()
	s.with(plain, broadcasting, o, append(rest, d)...)
	return d
}

func (s isa) zero() vec {
	v := s.reg()
	if s.wide() {
		VPXORD(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
	return v
}

func (s isa) add(a vec, b operand.Op) vec { return s.into(VADDPS, VADDPS_BCST, b, a) }
func (s isa) sub(a vec, b operand.Op) vec { return s.into(VSUBPS, VSUBPS_BCST, b, a) }
func (s isa) mul(a vec, b operand.Op) vec { return s.into(VMULPS, VMULPS_BCST, b, a) }
func (s isa) div(a vec, b operand.Op) vec { return s.into(VDIVPS, VDIVPS_BCST, b, a) }
func (s isa) and(a vec, b operand.Op) vec { return s.into(VANDPS, VANDPS_BCST, b, a) }
func (s isa) or(a vec, b operand.Op) vec  { return s.into(VORPS, VORPS_BCST, b, a) }
func (s isa) xor(a vec, b operand.Op) vec { return s.into(VXORPS, VXORPS_BCST, b, a) }

func (s isa) sqrt(a vec) vec { return s.into(VSQRTPS, VSQRTPS_BCST, a) }

// min returns b where either is NaN, as the instruction does.
func (s isa) min(a vec, b operand.Op) vec { return s.into(VMINPS, VMINPS_BCST, b, a) }

// max returns b where either is NaN, as the instruction does.
func (s isa) max(a vec, b operand.Op) vec { return s.into(VMAXPS, VMAXPS_BCST, b, a) }

func (s isa) addInt(a vec, b operand.Op) vec { return s.into(VPADDD, VPADDD_BCST, b, a) }
func (s isa) subInt(a vec, b operand.Op) vec { return s.into(VPSUBD, VPSUBD_BCST, b, a) }

func (s isa) shiftLeft(a vec, n uint8) vec {
	d := s.reg()
	VPSLLD(operand.U8(n), a, d)
	return d
}

func (s isa) abs(a vec) vec { return s.and(a, bits32(0x7fffffff)) }
func (s isa) neg(a vec) vec { return s.xor(a, bits32(0x80000000)) }

// clamp limits a to [lo,hi] and keeps NaN.
func (s isa) clamp(a vec, lo, hi float64) vec {
	return s.max(s.load(c(lo)), s.min(s.load(c(hi)), a))
}

// mulAdd sets p = p*x + q.
func (s isa) mulAdd(p, x vec, q operand.Op) vec {
	s.with(VFMADD213PS, VFMADD213PS_BCST, q, x, p)
	return p
}

// accumulate sets acc += a*b.
func (s isa) accumulate(acc, a vec, b operand.Op) vec {
	s.with(VFMADD231PS, VFMADD231PS_BCST, b, a, acc)
	return acc
}

// deduct sets acc -= a*b.
func (s isa) deduct(acc, a vec, b operand.Op) vec {
	s.with(VFNMADD231PS, VFNMADD231PS_BCST, b, a, acc)
	return acc
}

// horner evaluates the polynomial in x with the coefficients from the highest
// power down.
func (s isa) horner(x vec, coef []float64) vec {
	p := s.load(c(coef[0]))
	for _, k := range coef[1:] {
		s.mulAdd(p, x, c(k))
	}
	return p
}

// Predicates of VCMPPS.
const (
	less      = operand.U8(0x11) // ordered, quiet
	equal     = operand.U8(0x00)
	unordered = operand.U8(0x03)
	notLess   = operand.U8(0x15) // or unordered
)

// comparing is VCMPPS or VCMPPS_BCST with the predicate filled in.
func comparing(ins instruction, predicate operand.U8) instruction {
	return func(ops ...operand.Op) { ins(append([]operand.Op{predicate}, ops...)...) }
}

// choose returns yes where "a predicate b" holds, else no.
func (s isa) choose(predicate operand.U8, a vec, b operand.Op, yes operand.Op, no vec) vec {
	if s.wide() {
		k := K()
		s.with(comparing(VCMPPS, predicate), comparing(VCMPPS_BCST, predicate), b, a, k)
		return s.into(VBLENDMPS, VBLENDMPS_BCST, yes, no, k)
	}
	m := s.into(comparing(VCMPPS, predicate), nil, b, a)
	return s.into(func(ops ...operand.Op) { VBLENDVPS(m, ops[0], ops[1], ops[2]) }, nil, yes, no)
}

// total adds the lanes into the low lane, always in the same order.
func (s isa) total(v vec) reg.VecVirtual {
	return s.across(v, func(b, a, d operand.Op) { VADDPS(b, a, d) })
}

// across joins the lanes with op by halves.
func (s isa) across(v vec, op func(b, a, d operand.Op)) reg.VecVirtual {
	y := v
	if s.wide() {
		y = YMM()
		VEXTRACTF64X4(operand.U8(1), v, y)
		op(y, v.AsY(), y)
	}
	x := XMM()
	VEXTRACTF128(operand.U8(1), y, x)
	op(x, y.AsX(), x)
	for _, shuffle := range []operand.U8{0x4e, 0xb1} {
		t := XMM()
		VPERMILPS(shuffle, x, t)
		op(t, x, x)
	}
	return x
}
