package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"

	"github.com/galley-ml/galley/internal/lane"
)

// forms holds the variants of an instruction for 32-bit and 64-bit floats, each with a vector or a broadcast
// lane as its first operand.
type forms struct{ single, singleBcst, double, doubleBcst instruction }

// of returns the two variants for the set's lanes.
func (f forms) of(s isa) (plain, broadcasting instruction) {
	if s.double {
		return f.double, f.doubleBcst
	}
	return f.single, f.singleBcst
}

// binaries are the instructions with two operands and a new result.
var binaries = map[lane.Op]forms{
	lane.Add:    {VADDPS, VADDPS_BCST, VADDPD, VADDPD_BCST},
	lane.Sub:    {VSUBPS, VSUBPS_BCST, VSUBPD, VSUBPD_BCST},
	lane.Mul:    {VMULPS, VMULPS_BCST, VMULPD, VMULPD_BCST},
	lane.Div:    {VDIVPS, VDIVPS_BCST, VDIVPD, VDIVPD_BCST},
	lane.Min:    {VMINPS, VMINPS_BCST, VMINPD, VMINPD_BCST},
	lane.Max:    {VMAXPS, VMAXPS_BCST, VMAXPD, VMAXPD_BCST},
	lane.And:    {VANDPS, VANDPS_BCST, VANDPD, VANDPD_BCST},
	lane.Or:     {VORPS, VORPS_BCST, VORPD, VORPD_BCST},
	lane.Xor:    {VXORPS, VXORPS_BCST, VXORPD, VXORPD_BCST},
	lane.AddInt: {VPADDD, VPADDD_BCST, VPADDQ, VPADDQ_BCST},
	lane.SubInt: {VPSUBD, VPSUBD_BCST, VPSUBQ, VPSUBQ_BCST},
}

// products are the fused multiply-add instructions, which overwrite their destination, the first operand of
// the lane op; the other two follow from the last down.
var products = map[lane.Op]forms{
	lane.MulAdd: {VFMADD213PS, VFMADD213PS_BCST, VFMADD213PD, VFMADD213PD_BCST},
	lane.AddMul: {VFMADD231PS, VFMADD231PS_BCST, VFMADD231PD, VFMADD231PD_BCST},
	lane.DedMul: {VFNMADD231PS, VFNMADD231PS_BCST, VFNMADD231PD, VFNMADD231PD_BCST},
	lane.MulDed: {VFMSUB231PS, VFMSUB231PS_BCST, VFMSUB231PD, VFMSUB231PD_BCST},
}

var (
	comparisons = forms{VCMPPS, VCMPPS_BCST, VCMPPD, VCMPPD_BCST}
	blends      = forms{VBLENDMPS, VBLENDMPS_BCST, VBLENDMPD, VBLENDMPD_BCST}
	tables      = forms{VPTERNLOGD, VPTERNLOGD_BCST, VPTERNLOGQ, VPTERNLOGQ_BCST}
	roots       = forms{VSQRTPS, VSQRTPS_BCST, VSQRTPD, VSQRTPD_BCST}
)

// reader emits a list of instructions for a lane.
type reader struct {
	isa
	regs map[int]vec
	last map[int]int // the last instruction that uses a register
	now  int
}

// emit emits a list of instructions and returns its results; the inputs are not changed.
func (s isa) emit(code []lane.Instr, in []vec, results ...lane.Arg) []vec {
	r := &reader{isa: s, regs: map[int]vec{}, last: map[int]int{}}
	for i := range code {
		for _, a := range code[i].Args() {
			r.last[a.Reg] = i
		}
	}
	for _, a := range results {
		r.last[a.Reg] = len(code)
	}
	for i, v := range in {
		r.regs[i], r.last[i] = v, len(code)
	}
	for i := range code {
		r.now = i
		r.regs[code[i].Dst] = r.instr(&code[i])
	}
	out := make([]vec, len(results))
	for i, a := range results {
		out[i] = r.regs[a.Reg]
	}
	return out
}

// operand returns a register, or a constant in memory.
func (r *reader) operand(a lane.Arg) operand.Op {
	switch {
	case !a.IsConst():
		return r.regs[a.Reg]
	case r.double:
		return bits64(a.Bits)
	}
	return bits32(uint32(a.Bits))
}

// own returns a register with the operand that may be overwritten.
func (r *reader) own(a lane.Arg) vec {
	if r.last[a.Reg] > r.now {
		return r.load(r.regs[a.Reg])
	}
	return r.regs[a.Reg]
}

func (r *reader) instr(i *lane.Instr) vec {
	if f, ok := binaries[i.Op]; ok {
		plain, broadcasting := f.of(r.isa)
		return r.into(plain, broadcasting, r.operand(i.Arg[1]), r.regs[i.Arg[0].Reg])
	}
	if f, ok := products[i.Op]; ok {
		plain, broadcasting := f.of(r.isa)
		sum := r.own(i.Arg[0])
		r.with(plain, broadcasting, r.operand(i.Arg[2]), r.operand(i.Arg[1]), sum)
		return sum
	}
	if i.Op == lane.OrAnd {
		return r.orAnd(i)
	}
	a := r.operand(i.Arg[0])
	switch i.Op {
	case lane.Load:
		if i.Arg[0].IsConst() && i.Arg[0].Bits == 0 {
			return r.zero()
		}
		return r.load(a)
	case lane.Sqrt:
		plain, broadcasting := roots.of(r.isa)
		return r.into(plain, broadcasting, a)
	case lane.ShiftL:
		return r.shift(forms{single: VPSLLD, double: VPSLLQ}, i.Imm, a)
	case lane.ShiftR:
		return r.shift(forms{single: VPSRAD}, i.Imm, a)
	case lane.ShiftDown:
		return r.shift(forms{double: VPSRLQ}, i.Imm, a)
	case lane.FromInt:
		return r.into(VCVTDQ2PS, nil, a)
	}
	return r.chosen(i, a)
}

// orAnd emits a |= b&c with AVX-512's ternary logic, whose truth table is one if a is, or b and c are.
func (r *reader) orAnd(i *lane.Instr) vec {
	plain, broadcasting := tables.of(r.isa)
	with := func(ins instruction) instruction {
		return func(ops ...operand.Op) { ins(append([]operand.Op{operand.U8(0xf8)}, ops...)...) }
	}
	a := r.own(i.Arg[0])
	r.with(with(plain), with(broadcasting), r.operand(i.Arg[2]), r.operand(i.Arg[1]), a)
	return a
}

// chosen emits instructions that compare and select.
func (r *reader) chosen(i *lane.Instr, a operand.Op) vec {
	b := r.operand(i.Arg[1])
	switch i.Op {
	case lane.Compare:
		if r.wide() {
			panic("vector: kernels for AVX-512 need no comparison by itself")
		}
		return r.compared(i.Imm, a, b).(vec)
	case lane.Choose:
		return r.blend(r.compared(i.Imm, a, b), r.operand(i.Arg[2]), r.operand(i.Arg[3]))
	case lane.Select:
		if r.wide() {
			a = r.maskOf(a)
		}
		return r.blend(a, b, r.operand(i.Arg[2]))
	case lane.Scale:
		d, k := r.reg(), r.compared(i.Imm, r.operand(i.Arg[2]), r.operand(i.Arg[3]))
		VSCALEFPS_Z(b, a, k, d)
		return d
	}
	panic("vector: no kernel has such an instruction")
}

// maskOf returns the sign bits of lanes as a mask register.
func (r *reader) maskOf(a operand.Op) operand.Op {
	k := K()
	if r.double {
		VPMOVQ2M(a, k)
	} else {
		VPMOVD2M(a, k)
	}
	return k
}
