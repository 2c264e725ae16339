package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/galley-ml/galley/internal/lane"
)

// vec is a register of the instruction set's full width.
type vec = reg.VecVirtual

// isa is an instruction set: the methods emit the same operation in either. An
// operand that is an operand.Op may be a vector or a memory constant.
type isa struct {
	name   string
	width  int  // lanes
	double bool // of float64
}

// bytes returns the size of a lane.
func (s isa) bytes() int {
	if s.double {
		return 8
	}
	return 4
}

func (s isa) wide() bool { return s.width*s.bytes() == 64 }

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
	if ok && s.wide() && !s.double {
		return s.broadcast(k.Mem)
	}
	v := s.reg()
	if ok && s.wide() {
		VBROADCASTSD(k.Mem, v)
		return v
	}
	if ok {
		o = k.Mem
	}
	VMOVUPS(o, v)
	return v
}

// instruction is one of avo's variadic constructors.
type instruction func(ops ...operand.Op)

// with emits the instruction with first operand o. AVX-512 broadcasts a constant from one
// lane, since the linker does not align data to 64 bytes and a load across cache lines costs
// double.
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

// into is like with, for instructions with a new destination.
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

func (s isa) addInt(a vec, b operand.Op) vec { return s.into(VPADDD, VPADDD_BCST, b, a) }

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

// unordered is the predicate of VCMPPS that finds NaN.
const unordered = operand.U8(lane.Unordered)

// shift emits a shift of each lane.
func (s isa) shift(f forms, n uint8, a operand.Op) vec {
	ins, _ := f.of(s)
	return s.into(func(ops ...operand.Op) { ins(operand.U8(n), ops[0], ops[1]) }, nil, a)
}

// compared returns where "a predicate b" holds: a mask register for AVX-512, else a vector.
func (s isa) compared(predicate uint8, a, b operand.Op) operand.Op {
	plain, broadcasting := comparisons.of(s)
	with := func(ins instruction) instruction {
		return func(ops ...operand.Op) { ins(append([]operand.Op{operand.U8(predicate)}, ops...)...) }
	}
	if !s.wide() {
		return s.into(with(plain), nil, b, a)
	}
	k := K()
	s.with(with(plain), with(broadcasting), b, a, k)
	return k
}

// blend returns yes in lanes where the mask is set, else no.
func (s isa) blend(mask, yes, no operand.Op) vec {
	plain, broadcasting := blends.of(s)
	if s.wide() {
		return s.into(plain, broadcasting, yes, no, mask)
	}
	choose := VBLENDVPS
	if s.double {
		choose = VBLENDVPD
	}
	return s.into(func(ops ...operand.Op) { choose(mask, ops[0], ops[1], ops[2]) }, nil, yes, no)
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
