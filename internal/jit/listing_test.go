package jit

import (
	"fmt"
	"slices"
	"strings"
)

// Listing names one form of an instruction with registers, in the words of GNU as in Intel's order, beside
// the bytes that it is written as: what tests compare.
type Listing struct {
	Text string
	Code []byte
}

// operandsOf is how an instruction's operands are ordered and which registers they are.
type operandsOf uint8

const (
	threeOps   operandsOf = iota // reg, vvvv, rm
	twoOps                       // reg, rm
	storeOps                     // rm, reg
	maskStore                    // rm, vvvv, reg
	toMask                       // k, vvvv, rm
	fromMask                     // reg, k
	asMask                       // k, rm
	blendOps                     // reg, vvvv, rm, register in the immediate
	extractOps                   // rm, reg, half as wide
	byteLoad                     // reg, a quarter of its width in memory
	byteStore                    // a quarter of its width in memory, reg
)

// forms is every instruction as it is used.
var forms = []struct {
	ins
	kind   operandsOf
	vex    bool
	evex   bool
	imm    bool
	scalar bool // one lane
}{
	{vaddps, threeOps, true, true, false, false}, {vsubps, threeOps, true, true, false, false},
	{vmulps, threeOps, true, true, false, false}, {vdivps, threeOps, true, true, false, false},
	{vminps, threeOps, true, true, false, false}, {vmaxps, threeOps, true, true, false, false},
	{vandps, threeOps, true, true, false, false}, {vorps, threeOps, true, true, false, false},
	{vxorps, threeOps, true, true, false, false}, {vsqrtps, twoOps, true, true, false, false},
	{vpaddd, threeOps, true, true, false, false}, {vpsubd, threeOps, true, true, false, false},
	{vcvtdq2ps, twoOps, true, true, false, false}, {vfmadd213ps, threeOps, true, true, false, false},
	{vfmadd231ps, threeOps, true, true, false, false}, {vfnmadd231ps, threeOps, true, true, false, false},
	{vfmsub231ps, threeOps, true, true, false, false}, {vscalefps, threeOps, false, true, false, false},
	{vmovups, twoOps, true, true, false, false}, {vmovupsTo, storeOps, true, true, false, false},
	{vmovntps, storeOps, true, true, false, false},
	{vaddss, threeOps, true, false, false, true}, {vmaskmovps, threeOps, true, false, false, false},
	{vmaskmovpsTo, maskStore, true, false, false, false}, {vcmpps, toMask, true, true, true, false},
	{vblendvps, blendOps, true, false, false, false}, {vblendmps, threeOps, false, true, false, false},
	{vroundps, twoOps, true, false, true, false}, {vrndscaleps, twoOps, false, true, true, false},
	{vpermilps, twoOps, true, false, true, false}, {vextractf128, extractOps, true, false, true, false},
	{vextractf64, extractOps, false, true, true, false}, {vpmovm2d, fromMask, false, true, false, false},
	{vpmovd2m, asMask, false, true, false, false}, {vpmovzxbd, byteLoad, true, true, false, false},
	{vpmovdb, byteStore, false, true, false, false}, {vpmovzxwd, byteLoad, true, true, false, false},
	{vpmovdw, byteStore, false, true, false, false}, {vcvtph2ps, byteLoad, true, true, false, false},
	{vcvtps2ph, byteStore, true, true, true, false}, {vpternlogd, threeOps, false, true, true, false},
}

// Listings returns forms of every vector instruction with registers and memory chosen by pick, which is given
// how many choices there are.
func Listings(pick func(n int) int) []Listing {
	var list []Listing
	all := slices.Clone(forms)
	for _, f := range forms {
		if d, ok := doubles[f.ins]; ok {
			f.ins = d
			all = append(all, f)
		}
	}
	for _, f := range all {
		for _, evex := range []bool{false, true} {
			if evex && !f.evex || !evex && !f.vex {
				continue
			}
			for _, memory := range []bool{false, true} {
				l := lister{pick: pick, evex: evex, memory: memory, imm: f.imm, scalar: f.scalar}
				if text, ok := l.emit(f.ins, f.kind); ok {
					list = append(list, Listing{text, l.a.code})
				}
			}
		}
	}
	return list
}

// lister writes one form.
type lister struct {
	a            asm
	pick         func(n int) int
	evex, memory bool
	imm, scalar  bool
}

var generalNames = []string{
	"rax",
	"rcx",
	"rdx",
	"rbx",
	"rsp",
	"rbp",
	"rsi",
	"rdi",
	"r8",
	"r9",
	"r10",
	"r11",
	"r12",
	"r13",
	"r14",
	"r15",
}

// vector returns a register's name at a width: 0 xmm, 1 ymm, 2 zmm.
func vector(r, length int) string { return [3]string{"xmm", "ymm", "zmm"}[length] + fmt.Sprint(r) }

func (l *lister) emit(i ins, kind operandsOf) (string, bool) {
	f := form{length: 1, evex: l.evex, imm: -1}
	registers := 16
	if l.evex {
		f.length, registers = 2, 32
	}
	if l.scalar {
		f.length = 0
	}
	reg, vvvv, rm := l.pick(registers), l.pick(registers), l.pick(registers)
	suffix := ""
	if l.imm {
		f.imm = l.pick(2)
		suffix = fmt.Sprintf(", %d", f.imm)
	}
	name := vector(rm, f.length)
	var m mem
	if l.memory {
		m = mem{base: []int{rax, rbx, rdx, r8, r12, r13, r15}[l.pick(7)], index: rcx, scale: 4,
			disp: int32(0x1000 + 4*l.pick(1000))}
		name = fmt.Sprintf("[%s+rcx*4+%d]", generalNames[m.base], m.disp)
	}
	must := map[operandsOf]bool{maskStore: true, byteLoad: true, byteStore: true, storeOps: true}
	never := map[operandsOf]bool{fromMask: true, asMask: true, extractOps: true}
	if must[kind] && !l.memory || never[kind] && l.memory || strings.HasPrefix(i.name, "vmaskmov") && !l.memory {
		return "", false
	}
	var text string
	a, b := vector(reg, f.length), vector(vvvv, f.length)
	switch kind {
	case threeOps:
		text = strings.Join([]string{a, b, name}, ", ")
	case twoOps, byteLoad:
		vvvv, text = 0, a+", "+name
	case storeOps, byteStore:
		vvvv, text = 0, name+", "+a
	case maskStore:
		text = strings.Join([]string{name, b, a}, ", ")
	case toMask:
		if l.evex {
			reg = 1 + l.pick(7)
			a = fmt.Sprint("k", reg)
		}
		text = strings.Join([]string{a, b, name}, ", ")
	case fromMask:
		rm = 1 + l.pick(7)
		vvvv, text = 0, fmt.Sprintf("%s, k%d", a, rm)
	case asMask:
		reg = 1 + l.pick(7)
		vvvv, text = 0, fmt.Sprintf("k%d, %s", reg, name)
	case blendOps:
		mask := l.pick(16)
		f.imm = mask << 4
		text = strings.Join([]string{a, b, name, vector(mask, f.length)}, ", ")
	case extractOps:
		vvvv, text = 0, vector(rm, f.length-1)+", "+a
	}
	if l.memory {
		l.a.rm(i, f, reg, vvvv, m)
	} else {
		l.a.rr(i, f, reg, vvvv, rm)
	}
	return i.name + " " + text + suffix, true
}
