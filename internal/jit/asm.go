package jit

import (
	"encoding/binary"
	"fmt"
)

// The general registers in use, by the processor's numbers.
const (
	rax, rcx, rdx, rbx = 0, 1, 2, 3
	rsi, rdi           = 6, 7
	r8, r9, r10, r11   = 8, 9, 10, 11
	r12, r13, r15      = 12, 13, 15
)

// mem is a memory operand: base + index·scale + disp, or a constant stored after the code.
type mem struct {
	base, index int // index is negative if there is none
	scale       int
	disp        int32
	constant    int // its number plus one; 0 means none
}

func at(base int, disp int) mem { return mem{base: base, index: -1, disp: int32(disp)} }

// ins is the encoding of a vector instruction.
type ins struct {
	name string
	op   byte
	mmm  byte // 1 0F, 2 0F38, 3 0F3A
	pp   byte // 0 none, 1 66, 2 F3, 3 F2
	w    byte // evexW, vexW
}

// The bits of w: W in EVEX, and in VEX, where most instructions on doubles do not set it.
const (
	evexW = 1
	vexW  = 2
)

var (
	vaddps       = ins{"vaddps", 0x58, 1, 0, 0}
	vsubps       = ins{"vsubps", 0x5C, 1, 0, 0}
	vmulps       = ins{"vmulps", 0x59, 1, 0, 0}
	vdivps       = ins{"vdivps", 0x5E, 1, 0, 0}
	vminps       = ins{"vminps", 0x5D, 1, 0, 0}
	vmaxps       = ins{"vmaxps", 0x5F, 1, 0, 0}
	vandps       = ins{"vandps", 0x54, 1, 0, 0}
	vorps        = ins{"vorps", 0x56, 1, 0, 0}
	vxorps       = ins{"vxorps", 0x57, 1, 0, 0}
	vsqrtps      = ins{"vsqrtps", 0x51, 1, 0, 0}
	vpaddd       = ins{"vpaddd", 0xFE, 1, 1, 0}
	vpsubd       = ins{"vpsubd", 0xFA, 1, 1, 0}
	vcvtdq2ps    = ins{"vcvtdq2ps", 0x5B, 1, 0, 0}
	vfmadd213ps  = ins{"vfmadd213ps", 0xA8, 2, 1, 0}
	vfmadd231ps  = ins{"vfmadd231ps", 0xB8, 2, 1, 0}
	vfnmadd231ps = ins{"vfnmadd231ps", 0xBC, 2, 1, 0}
	vfmsub231ps  = ins{"vfmsub231ps", 0xBA, 2, 1, 0}
	vpternlogd   = ins{"vpternlogd", 0x25, 3, 1, 0}
	vscalefps    = ins{"vscalefps", 0x2C, 2, 1, 0}
	vbroadcastss = ins{"vbroadcastss", 0x18, 2, 1, 0}
	vmovups      = ins{"vmovups", 0x10, 1, 0, 0}
	vmovupsTo    = ins{"vmovups", 0x11, 1, 0, 0}
	vmovntps     = ins{"vmovntps", 0x2B, 1, 0, 0}
	vmovss       = ins{"vmovss", 0x10, 1, 2, 0}
	vmovssTo     = ins{"vmovss", 0x11, 1, 2, 0}
	vaddss       = ins{"vaddss", 0x58, 1, 2, 0}
	vmaskmovps   = ins{"vmaskmovps", 0x2C, 2, 1, 0}
	vmaskmovpsTo = ins{"vmaskmovps", 0x2E, 2, 1, 0}
	vcmpps       = ins{"vcmpps", 0xC2, 1, 0, 0}
	vblendvps    = ins{"vblendvps", 0x4A, 3, 1, 0}
	vblendmps    = ins{"vblendmps", 0x65, 2, 1, 0}
	vroundps     = ins{"vroundps", 0x08, 3, 1, 0}
	vrndscaleps  = ins{"vrndscaleps", 0x08, 3, 1, 0}
	vpermilps    = ins{"vpermilps", 0x04, 3, 1, 0}
	vextractf128 = ins{"vextractf128", 0x19, 3, 1, 0}
	vextractf64  = ins{"vextractf64x4", 0x1B, 3, 1, 1}
	vpmovm2d     = ins{"vpmovm2d", 0x38, 2, 2, 0}
	vpmovd2m     = ins{"vpmovd2m", 0x39, 2, 2, 0}
	vpmovzxbd    = ins{"vpmovzxbd", 0x31, 2, 1, 0}
	vpmovzxwd    = ins{"vpmovzxwd", 0x33, 2, 1, 0}
	vpmovdw      = ins{"vpmovdw", 0x33, 2, 2, 0}
	vcvtph2ps    = ins{"vcvtph2ps", 0x13, 2, 1, 0}
	vcvtps2ph    = ins{"vcvtps2ph", 0x1D, 3, 1, 0}
	vpmovdb      = ins{"vpmovdb", 0x31, 2, 2, 0}
	shiftImm     = ins{"", 0x72, 1, 1, 0} // with 6 vpslld, with 4 vpsrad, with 2 vpsrld
	kmovw        = ins{"kmovw", 0x92, 1, 0, 0}
	vmovd        = ins{"vmovd", 0x6E, 1, 1, 0}
)

// asm emits machine code.
type asm struct {
	code []byte
	// patches are the places that refer to constants, which are stored after the code.
	patches []patch
}

type patch struct{ at, end, constant int }

// form is the rest of an instruction's encoding.
type form struct {
	length int  // 0 128 bits, 1 256, 2 512
	evex   bool // otherwise VEX
	mask   int  // opmask register, 0 none
	zero   bool // masked lanes are zero
	bcast  bool // memory operand is one lane, broadcast
	imm    int  // -1 none
}

// rr emits reg, vvvv, rm registers.
func (a *asm) rr(i ins, f form, reg, vvvv, rm int) {
	a.prefix(i, f, reg, vvvv, rm>>3&1, rm>>4&1)
	a.byte(i.op)
	a.byte(0xC0 | byte(reg&7)<<3 | byte(rm&7))
	a.imm(f)
}

// rm emits reg, vvvv and memory.
func (a *asm) rm(i ins, f form, reg, vvvv int, m mem) {
	b, x := 0, 0
	if m.constant == 0 {
		b = m.base >> 3 & 1
		if m.index >= 0 {
			x = m.index >> 3 & 1
		}
	}
	a.prefix(i, f, reg, vvvv, b, x)
	a.byte(i.op)
	a.modrm(reg, m)
	a.imm(f)
	a.end(m)
}

func (a *asm) byte(b ...byte) { a.code = append(a.code, b...) }

func (a *asm) imm(f form) {
	if f.imm >= 0 {
		a.byte(byte(f.imm))
	}
}

func (a *asm) imm32(v int32) { a.code = binary.LittleEndian.AppendUint32(a.code, uint32(v)) }

// end records where an instruction that refers to a constant ends: the displacement is relative to its end.
func (a *asm) end(m mem) {
	if m.constant > 0 {
		a.patches[len(a.patches)-1].end = len(a.code)
	}
}

func (a *asm) modrm(reg int, m mem) {
	r := byte(reg&7) << 3
	switch {
	case m.constant > 0:
		a.byte(r | 5)
		a.patches = append(a.patches, patch{at: len(a.code), constant: m.constant - 1})
	case m.index >= 0:
		scale := map[int]byte{1: 0, 2: 1, 4: 2, 8: 3}[m.scale]
		a.byte(0x80|r|4, scale<<6|byte(m.index&7)<<3|byte(m.base&7))
	case m.base&7 == 4:
		a.byte(0x80|r|4, 0x24)
	default:
		a.byte(0x80 | r | byte(m.base&7))
	}
	a.imm32(m.disp)
}

// prefix emits VEX or EVEX. b and x are the high bits of the base and index registers; for a register instead
// of memory they are its bits 3 and 4.
func (a *asm) prefix(i ins, f form, reg, vvvv, b, x int) {
	not := func(bit int) byte { return byte(bit&1) ^ 1 }
	if !f.evex {
		if reg > 15 || vvvv > 15 {
			panic(fmt.Sprintf("jit: %s with register %d or %d needs EVEX", i.name, reg, vvvv))
		}
		a.byte(0xC4, not(reg>>3)<<7|not(x)<<6|not(b)<<5|i.mmm,
			i.w>>1<<7|byte(^vvvv&15)<<3|byte(f.length)<<2|i.pp)
		return
	}
	p2 := byte(f.length)<<5 | not(vvvv>>4)<<3 | byte(f.mask)
	if f.zero {
		p2 |= 0x80
	}
	if f.bcast {
		p2 |= 0x10
	}
	a.byte(0x62, not(reg>>3)<<7|not(x)<<6|not(b)<<5|not(reg>>4)<<4|i.mmm,
		i.w<<7|byte(^vvvv&15)<<3|4|i.pp, p2)
}

// shift emits a shift by a constant: kind 6 left, 4 arithmetic right, 2 logical right.
func (a *asm) shift(f form, kind, dst, src int) { a.rr(shiftImm, f, kind, dst, src) }

// Instructions on general registers, 64 bits unless noted.

func (a *asm) rex(reg, base int) { a.byte(0x48 | byte(reg>>3&1)<<2 | byte(base>>3&1)) }

func (a *asm) load(reg int, m mem) { a.rex(reg, m.base); a.byte(0x8B); a.modrm(reg, m) }

func (a *asm) store(m mem, reg int) { a.rex(reg, m.base); a.byte(0x89); a.modrm(reg, m) }

func (a *asm) addMem(reg int, m mem) { a.rex(reg, m.base); a.byte(0x03); a.modrm(reg, m) }

func (a *asm) move(dst, src int) { a.rex(src, dst); a.byte(0x89, 0xC0|byte(src&7)<<3|byte(dst&7)) }

func (a *asm) addImm(reg int, v int32) { a.rex(0, reg); a.byte(0x81, 0xC0|byte(reg&7)); a.imm32(v) }

func (a *asm) cmpImm(reg int, v int32) { a.rex(0, reg); a.byte(0x81, 0xF8|byte(reg&7)); a.imm32(v) }

func (a *asm) cmp(x, y int) { a.rex(y, x); a.byte(0x39, 0xC0|byte(y&7)<<3|byte(x&7)) }

func (a *asm) shr(reg int, n byte) { a.rex(0, reg); a.byte(0xC1, 0xE8|byte(reg&7), n) }

func (a *asm) dec(reg int) { a.rex(0, reg); a.byte(0xFF, 0xC8|byte(reg&7)) }

// movImm sets one of the first eight registers to a 32-bit value; the upper half becomes zero.
func (a *asm) movImm(reg int, v int32) { a.byte(0xB8 | byte(reg)); a.imm32(v) }

// jump emits a conditional jump backward; cc is 5 for not zero, 0xC for less.
func (a *asm) jump(cc byte, to int) {
	a.byte(0x0F, 0x80|cc)
	a.imm32(int32(to - (len(a.code) + 4)))
}

// prefetch prefetches a cache line, to be written or only read; base is one of the upper registers, or rbx.
func (a *asm) prefetch(m mem, write bool) {
	if m.base >= 8 {
		a.byte(0x41)
	}
	op := byte(0x18)
	if write {
		op = 0x0D
	}
	a.byte(0x0F, op)
	a.modrm(1, m)
}

// fence orders non-temporal stores before later stores.
func (a *asm) fence() { a.byte(0x0F, 0xAE, 0xF8) }

func (a *asm) finish() { a.byte(0xC5, 0xF8, 0x77, 0xC3) } // vzeroupper, ret
