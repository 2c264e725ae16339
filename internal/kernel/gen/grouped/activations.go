package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// largest generates the kernel that finds the largest absolute value of every group, as bits.
func largest(isa string) {
	wide := isa == "VNNI"
	TEXT("groupedLargest"+isa, attr.NOSPLIT, "func(groups, steps int, bits *uint32, x *float32)")
	Pragma("noescape")
	groups, steps := Load(Param("groups"), GP64()), GP64()
	bits, x := Load(Param("bits"), GP64()), Load(Param("x"), GP64())
	mask, top, t := vec(wide, 0), vec(wide, 1), vec(wide, 2)
	k := &kernel{target: target{isa: isa}}
	k.fill(mask, 0x7fffffff)
	Label("group")
	k.zero(top)
	Load(Param("steps"), steps)
	Label("step")
	for i := range 32 / lanes(wide) {
		if wide {
			VPANDD(Mem{Base: x, Disp: 64 * i}, mask, t)
		} else {
			VPAND(Mem{Base: x, Disp: 32 * i}, mask, t)
		}
		VPMAXUD(t, top, top)
	}
	ADDQ(Imm(128), x)
	DECQ(steps)
	JNZ(LabelRef("step"))
	across(wide, top, t, func(a, b reg.Register) { VPMAXUD(a, b, b) })
	VMOVD(top.AsX(), Mem{Base: bits})
	ADDQ(Imm(4), bits)
	DECQ(groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}

func lanes(wide bool) int {
	if wide {
		return 16
	}
	return 8
}

// across combines all elements of v into its first.
func across(wide bool, v, t reg.VecPhysical, combine func(a, b reg.Register)) {
	if wide {
		VEXTRACTI64X4(Imm(1), v, t.AsY())
		combine(t.AsY(), v.AsY())
	}
	VEXTRACTI128(Imm(1), v.AsY(), t.AsX())
	combine(t.AsX(), v.AsX())
	VPSHUFD(Imm(0x4e), v.AsX(), t.AsX())
	combine(t.AsX(), v.AsX())
	VPSHUFD(Imm(0xb1), v.AsX(), t.AsX())
	combine(t.AsX(), v.AsX())
}

// quantize generates the kernel that rounds every group times its factor to bytes. A group's bytes are
// followed by 4 bytes that it does not write, and the bytes' sum.
func quantize(isa string) {
	wide := isa == "VNNI"
	TEXT("groupedRound"+isa, attr.NOSPLIT, "func(groups, steps int, dst *uint8, x *float32, factors *float32)")
	Pragma("noescape")
	groups, steps := Load(Param("groups"), GP64()), GP64()
	dst, x, factors := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("factors"), GP64())
	f, sum, order := vec(wide, 0), vec(wide, 1), vec(wide, 7)
	k := &kernel{target: target{isa: isa}}
	if !wide {
		loadOrder(order)
	}
	Label("group")
	VBROADCASTSS(Mem{Base: factors}, f)
	k.zero(sum)
	Load(Param("steps"), steps)
	Label("step")
	for i := range 32 / lanes(wide) {
		v := vec(wide, 2+i)
		VMULPS(Mem{Base: x, Disp: 4 * lanes(wide) * i}, f, v)
		VCVTPS2DQ(v, v)
		VPADDD(v, sum, sum)
		if wide {
			VPMOVDB(v, Mem{Base: dst, Disp: 16 * i})
		}
	}
	if !wide {
		packBytes(dst, order)
	}
	ADDQ(Imm(128), x)
	ADDQ(Imm(32), dst)
	DECQ(steps)
	JNZ(LabelRef("step"))
	across(wide, sum, vec(wide, 2), func(a, b reg.Register) { VPADDD(a, b, b) })
	VMOVD(sum.AsX(), Mem{Base: dst, Disp: 4})
	ADDQ(Imm(8), dst)
	ADDQ(Imm(4), factors)
	DECQ(groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// loadOrder loads the permutation of packed doublewords: packing instructions work by halves.
func loadOrder(v reg.VecPhysical) {
	m := GLOBL("groupedOrder", attr.RODATA|attr.NOPTR)
	for i, x := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(x))
	}
	VMOVDQU(m, v)
}

func packBytes(dst reg.Register, order reg.VecPhysical) {
	a, b, c, d := vec(false, 2), vec(false, 3), vec(false, 4), vec(false, 5)
	VPACKSSDW(b, a, a)
	VPACKSSDW(d, c, c)
	VPACKSSWB(c, a, a)
	VPERMD(a, order, a)
	VMOVDQU(a, Mem{Base: dst})
}
