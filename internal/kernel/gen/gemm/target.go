package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// target is an instruction set and an element type.
type target struct {
	isa   string // "AVX2" or "AVX512"
	elem  string // "F32" or "F64"
	size  int    // bytes in an element
	lanes int    // elements in a vector
}

var targets = []target{
	{"AVX512", "F32", 4, 16},
	{"AVX512", "F64", 8, 8},
	{"AVX2", "F32", 4, 8},
	{"AVX2", "F64", 8, 4},
}

func (t target) wide() bool   { return t.isa == "AVX512" }
func (t target) single() bool { return t.elem == "F32" }
func (t target) bytes() int   { return t.size * t.lanes }

// text begins the kernel of the given name, and records its declaration.
func (t target) text(name, params string) {
	name = fmt.Sprintf("gemm%s%s%s", name, t.elem, t.isa)
	declare(name, params)
	TEXT(name, NOSPLIT, "func("+avoParams(params)+")")
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

// pick returns the instruction for the element type.
func (t target) pick(f32, f64 func(...Op)) func(...Op) {
	if t.single() {
		return f32
	}
	return f64
}

func ternary(f func(a, b, c Op)) func(...Op) { return func(o ...Op) { f(o[0], o[1], o[2]) } }

func (t target) zero(v reg.Register) {
	if t.wide() {
		VPXORQ(v, v, v)
		return
	}
	VXORPS(v, v, v)
}

func (t target) move(from, to Op)      { t.pick(VMOVUPS, VMOVUPD)(from, to) }
func (t target) fma(a, b, acc Op)      { t.pick(VFMADD231PS, VFMADD231PD)(a, b, acc) }
func (t target) scaleAdd(c, s, acc Op) { t.pick(VFMADD213PS, VFMADD213PD)(c, s, acc) }
func (t target) mul(a, b, to Op)       { t.pick(VMULPS, VMULPD)(a, b, to) }
func (t target) add(a, b, to Op)       { t.pick(VADDPS, VADDPD)(a, b, to) }
func (t target) broadcast(m, to Op)    { t.pick(VBROADCASTSS, VBROADCASTSD)(m, to) }

// broadcastScale fills v with the argument alpha.
func (t target) broadcastScale(v reg.VecPhysical) {
	bits := Load(Param("alpha"), GP64())
	VMOVQ(bits, v.AsX())
	t.broadcast(v.AsX(), v)
}

// scaled returns a new register with n times the element size.
func (t target) scaled(name string) reg.Register {
	r := Load(Param(name), GP64())
	SHLQ(Imm(uint64(log2(t.size))), r)
	return r
}

func log2(n int) (l int) {
	for ; n > 1; n /= 2 {
		l++
	}
	return l
}

// masks prepares masks that select the first cols elements of count vectors: the mask registers from K1 on,
// or for AVX2 a pointer into the table of masks.
func (t target) masks(cols reg.Register, count int) reg.Register {
	bits := GP64()
	if t.wide() {
		MOVQ(I64(-1), bits)
		BZHIQ(cols, bits, bits)
		for j := range count {
			KMOVW(bits.As32(), maskReg(j))
			if j+1 < count {
				SHRQ(Imm(uint64(t.lanes)), bits)
			}
		}
		return bits
	}
	rest := GP64()
	MOVQ(cols, rest)
	SHLQ(Imm(uint64(log2(t.size))), rest)
	LEAQ(NewDataAddr(Symbol{Name: "gemmMask", Static: true}, maskBytes), bits)
	SUBQ(rest, bits)
	return bits
}

func maskReg(j int) reg.Register {
	return []reg.Register{reg.K1, reg.K2, reg.K3, reg.K4}[j]
}

// maskBytes is the number of bytes of ones, and of zeros after them, in the table of masks: the columns of
// the widest AVX2 tile.
const maskBytes = 96

func maskTable() {
	GLOBL("gemmMask", RODATA|NOPTR)
	for i := range 2 * maskBytes / 8 {
		v := uint64(0)
		if i < maskBytes/8 {
			v = ^v
		}
		DATA(i*8, U64(v))
	}
}

// loadMasked loads the elements selected by mask j, and zeros for the others.
// AVX2 needs a register for the mask.
func (t target) loadMasked(m Mem, masks reg.Register, j int, tmp, to Op) {
	if t.wide() {
		t.pick(ternary(VMOVUPS_Z), ternary(VMOVUPD_Z))(m, maskReg(j), to)
		return
	}
	VMOVUPS(Mem{Base: masks, Disp: j * t.bytes()}, tmp)
	t.pick(ternary(VMASKMOVPS), ternary(VMASKMOVPD))(m, tmp, to)
}

func (t target) storeMasked(from Op, masks reg.Register, j int, tmp Op, m Mem) {
	if t.wide() {
		t.pick(VMOVUPS, VMOVUPD)(from, maskReg(j), m)
		return
	}
	VMOVUPS(Mem{Base: masks, Disp: j * t.bytes()}, tmp)
	t.pick(ternary(VMASKMOVPS), ternary(VMASKMOVPD))(from, tmp, m)
}
