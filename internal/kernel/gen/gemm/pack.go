package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// format is the element format of a source to pack.
type format string

const (
	native format = ""
	bf16   format = "BF16"
	f16    format = "F16"
)

func (t target) formats() []format {
	if t.single() {
		return []format{native, bf16, f16}
	}
	return []format{native}
}

// sourceSize returns the bytes of an element in format f.
func (t target) sourceSize(f format) int {
	if f == native {
		return t.size
	}
	return 2
}

// widen loads a whole vector from a source in format f.
func (t target) widen(f format, m Mem, to Op) {
	switch f {
	case native:
		t.move(m, to)
	case bf16:
		VPMOVZXWD(m, to)
		VPSLLD(Imm(16), to, to)
	case f16:
		VCVTPH2PS(m, to)
	}
}

// widenMasked is widen for the elements selected by mask j. AVX2 has it for
// the native format only.
func (t target) widenMasked(f format, m Mem, masks reg.Register, j int, tmp, to Op) {
	switch f {
	case native:
		t.loadMasked(m, masks, j, tmp, to)
	case bf16:
		VPMOVZXWD_Z(m, maskReg(j), to)
		VPSLLD(Imm(16), to, to)
	case f16:
		VCVTPH2PS_Z(m, maskReg(j), to)
	}
}

// sourceStride returns the argument ld in bytes of the source.
func (t target) sourceStride(f format) reg.Register {
	ld := Load(Param("ld"), GP64())
	SHLQ(Imm(uint64(log2(t.sourceSize(f)))), ld)
	return ld
}

// packAcross generates the copy of k rows of count elements to rows of width; it does not write the
// other elements. With AVX2 it copies only whole vectors of the 16-bit formats, and the caller copies
// the rest.
func (t target) packAcross(f format) {
	t.text("Across"+string(f), "dst, src unsafe.Pointer, ld, count, k, width int")
	dst := Load(Param("dst"), GP64())
	src := Load(Param("src"), GP64())
	count := Load(Param("count"), GP64())
	k := Load(Param("k"), GP64())
	ld := t.sourceStride(f)
	gap := t.scaled("width")
	tail := GP64()
	MOVQ(count, tail)
	SHLQ(Imm(uint64(log2(t.size))), tail)
	SUBQ(tail, gap)
	MOVQ(count, tail)
	ANDQ(Imm(uint64(t.lanes-1)), tail)
	masks := t.masks(tail, 1)
	SUBQ(tail, count)
	from, left := GP64(), GP64()
	Label("row")
	MOVQ(src, from)
	MOVQ(count, left)
	t.copyVectors(f, dst, from, left)
	TESTQ(tail, tail)
	JZ(LabelRef("next"))
	if t.wide() || f == native {
		t.widenMasked(f, Mem{Base: from}, masks, 0, t.vec(1), t.vec(0))
		t.storeMasked(t.vec(0), masks, 0, t.vec(1), Mem{Base: dst})
	}
	LEAQ(Mem{Base: dst, Index: tail, Scale: uint8(t.size)}, dst)
	Label("next")
	ADDQ(ld, src)
	ADDQ(gap, dst)
	DECQ(k)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// copyVectors copies left elements, a multiple of the lanes, four and then one
// vector at a time.
func (t target) copyVectors(f format, dst, from, left reg.Register) {
	for _, n := range []int{4, 2, 1} {
		Label(fmt.Sprint("copy", n))
		CMPQ(left, Imm(uint64(n*t.lanes)))
		JLT(LabelRef(fmt.Sprint("copied", n)))
		for u := range n {
			t.widen(f, Mem{Base: from, Disp: u * t.lanes * t.sourceSize(f)}, t.vec(u))
		}
		for u := range n {
			t.move(t.vec(u), Mem{Base: dst, Disp: u * t.bytes()})
		}
		ADDQ(I32(int32(n*t.lanes*t.sourceSize(f))), from)
		ADDQ(I32(int32(n*t.bytes())), dst)
		SUBQ(Imm(uint64(n*t.lanes)), left)
		if n == 4 {
			JMP(LabelRef(fmt.Sprint("copy", n)))
		}
		Label(fmt.Sprint("copied", n))
	}
}

// alongState holds the registers of a transposing kernel.
type alongState struct {
	target
	f                      format
	dst, k, ld, ld3, width reg.Register
	count, store           reg.Register
	bases                  []reg.Register
}

// packAlong generates the transposition of up to a vector's lanes of rows, in
// square blocks in registers. Rows from count on are zero; store columns of
// the result are written. AVX2 takes a multiple of the lanes for k, and for
// store the lanes or half of them.
func (t target) packAlong(f format) {
	t.text("Along"+string(f), "dst, src unsafe.Pointer, ld, count, k, width, store int")
	s := alongState{target: t, f: f, ld3: GP64()}
	s.dst = Load(Param("dst"), GP64())
	src := Load(Param("src"), GP64())
	s.k = Load(Param("k"), GP64())
	s.width = t.scaled("width")
	s.store = Load(Param("store"), GP64())
	s.ld = t.sourceStride(f)
	LEAQ(Mem{Base: s.ld, Index: s.ld, Scale: 2}, s.ld3)
	s.bases = []reg.Register{src}
	for i := 4; i < t.lanes; i += 4 {
		base := GP64()
		LEAQ(Mem{Base: s.bases[i/4-1], Index: s.ld, Scale: 4}, base)
		s.bases = append(s.bases, base)
	}
	s.count = Load(Param("count"), GP64())
	if t.wide() {
		firstLanes(s.store, 1)
	}
	s.blocks()
	Label("return")
	VZEROUPPER()
	RET()
}

// blocks generates the loop over whole blocks and, for AVX-512, the remainder.
func (s alongState) blocks() {
	Label("block")
	CMPQ(s.k, Imm(uint64(s.lanes)))
	JLT(LabelRef("rest"))
	if s.wide() && s.single() && s.f == native {
		s.lanesAtOnce()
	} else {
		CMPQ(s.count, Imm(uint64(s.lanes)))
		JLT(LabelRef("fewer"))
		for i := range s.lanes {
			s.widen(s.f, s.source(i), s.vec(i))
		}
	}
	Label("loaded")
	s.writeBlock("full")
	s.nextBlock()

	Label("fewer")
	for i := range s.lanes {
		s.zero(s.vec(i))
	}
	for i := range s.lanes {
		CMPQ(s.count, Imm(uint64(i)))
		JLE(LabelRef("loaded"))
		s.widen(s.f, s.source(i), s.vec(i))
	}
	JMP(LabelRef("loaded"))

	Label("rest")
	if !s.wide() {
		return
	}
	TESTQ(s.k, s.k)
	JZ(LabelRef("return"))
	firstLanes(s.k, 0)
	for i := range s.lanes {
		s.zero(s.vec(i))
	}
	for i := range s.lanes {
		CMPQ(s.count, Imm(uint64(i)))
		JLE(LabelRef("restLoaded"))
		s.widenMasked(s.f, s.source(i), nil, 0, nil, s.vec(i))
	}
	Label("restLoaded")
	for i, v := range s.transpose() {
		s.storeMasked(v, nil, 1, nil, Mem{Base: s.dst})
		if i+1 < s.lanes {
			DECQ(s.k)
			JZ(LabelRef("return"))
			ADDQ(s.width, s.dst)
		}
	}
}

// nextBlock generates the end of an iteration of the loop over blocks.
func (s alongState) nextBlock() {
	for _, b := range s.bases {
		ADDQ(Imm(uint64(s.lanes*s.sourceSize(s.f))), b)
	}
	SUBQ(Imm(uint64(s.lanes)), s.k)
	JMP(LabelRef("block"))
}

// lanesAtOnce generates the case of as many rows as a vector or a tile has, which is
// nearly all of them, in half the time: rows four apart are loaded into the four 128-bit
// parts of a register, which needs no shuffle, so that only the parts are left to
// transpose.
func (s alongState) lanesAtOnce() {
	rows, _ := s.tileShape()
	CMPQ(s.count, s.store)
	JNE(LabelRef("fewer"))
	CMPQ(s.count, Imm(uint64(s.lanes)))
	JE(LabelRef("all"))
	CMPQ(s.count, Imm(uint64(rows)))
	JNE(LabelRef("fewer"))
	s.blockOf(rows)
	s.nextBlock()
	Label("all")
	s.blockOf(s.lanes)
	s.nextBlock()
}

// blockOf generates a block of the given rows. Each row is loaded completely before the next: rows that map
// to the same cache sets would evict each other.
func (s alongState) blockOf(rows int) {
	const part = 4
	for r := range rows {
		for p := range s.lanes / part {
			m, to := s.source(r), s.vec(p*part+r%part)
			m.Disp = p * part * s.size
			if r < part {
				VMOVUPS(m, to.AsX())
			} else {
				VINSERTF32X4(Imm(uint64(r/part)), m, to, to)
			}
		}
	}
	for p := range s.lanes / part {
		in := func(i int) reg.VecPhysical { return s.vec(p*part + i) }
		pair := func(i int) reg.VecPhysical { return s.vec(s.lanes + i) }
		out := func(i int) reg.VecPhysical { return s.vec(s.lanes + part + i) }
		for i := 0; i < part; i += 2 {
			VUNPCKLPS(in(i+1), in(i), pair(i))
			VUNPCKHPS(in(i+1), in(i), pair(i+1))
		}
		for i := range 2 {
			VUNPCKLPD(pair(2+i), pair(i), out(2*i))
			VUNPCKHPD(pair(2+i), pair(i), out(2*i+1))
		}
		for i := range part {
			s.storeMasked(out(i), nil, 1, nil, Mem{Base: s.dst})
			ADDQ(s.width, s.dst)
		}
	}
}

// firstLanes makes mask j select the first n elements of a vector.
func firstLanes(n reg.Register, j int) {
	all := GP64()
	MOVQ(I64(-1), all)
	BZHIQ(n, all, all)
	KMOVW(all.As32(), maskReg(j))
}

func (s alongState) source(i int) Mem {
	m := Mem{Base: s.bases[i/4]}
	if i%4 > 0 {
		m.Index, m.Scale = []reg.Register{s.ld, s.ld, s.ld3}[i%4-1], []uint8{1, 2, 1}[i%4-1]
	}
	return m
}

// writeBlock transposes the loaded block and writes it.
func (s alongState) writeBlock(label string) {
	out := s.transpose()
	if s.wide() {
		for _, v := range out {
			s.storeMasked(v, nil, 1, nil, Mem{Base: s.dst})
			ADDQ(s.width, s.dst)
		}
		return
	}
	CMPQ(s.store, Imm(uint64(s.lanes)))
	JNE(LabelRef(label + "Half"))
	for _, v := range out {
		s.move(v, Mem{Base: s.dst})
		ADDQ(s.width, s.dst)
	}
	JMP(LabelRef(label + "Done"))
	Label(label + "Half")
	for _, v := range out {
		s.move(v.AsX(), Mem{Base: s.dst})
		ADDQ(s.width, s.dst)
	}
	Label(label + "Done")
}

// transpose transposes the square block in the first registers, and returns
// the registers that hold its columns. First pairs of rows are interleaved
// within the 128 bit parts of the registers, then the parts are exchanged.
func (t target) transpose() []reg.VecPhysical {
	in, out := make([]reg.VecPhysical, t.lanes), make([]reg.VecPhysical, t.lanes)
	for i := range in {
		in[i], out[i] = t.vec(i), t.vec(t.lanes+i)
	}
	part := 2
	if t.single() {
		part = 4
		for i := 0; i < t.lanes; i += 2 {
			VUNPCKLPS(in[i+1], in[i], out[i])
			VUNPCKHPS(in[i+1], in[i], out[i+1])
		}
		in, out = out, in
		for i := 0; i < t.lanes; i += 4 {
			for j := range 2 {
				VUNPCKLPD(in[i+2+j], in[i+j], out[i+2*j])
				VUNPCKHPD(in[i+2+j], in[i+j], out[i+2*j+1])
			}
		}
	} else {
		for i := 0; i < t.lanes; i += 2 {
			VUNPCKLPD(in[i+1], in[i], out[i])
			VUNPCKHPD(in[i+1], in[i], out[i+1])
		}
	}
	return t.exchangeParts(out, in, part)
}

// exchangeParts transposes the 128 bit parts, of part elements each, of
// registers part apart.
func (t target) exchangeParts(in, out []reg.VecPhysical, part int) []reg.VecPhysical {
	if !t.wide() {
		for c := range part {
			VPERM2F128(Imm(0x20), in[part+c], in[c], out[c])
			VPERM2F128(Imm(0x31), in[part+c], in[c], out[part+c])
		}
		return out
	}
	const even, odd = 0x88, 0xdd
	for g := 0; g < 4; g += 2 {
		for c := range part {
			VSHUFF32X4(Imm(even), in[(g+1)*part+c], in[g*part+c], out[g*part+c])
			VSHUFF32X4(Imm(odd), in[(g+1)*part+c], in[g*part+c], out[(g+1)*part+c])
		}
	}
	for h := range 2 {
		for c := range part {
			lo, hi := out[h*part+c], out[(2+h)*part+c]
			VSHUFF32X4(Imm(even), hi, lo, in[h*part+c])
			VSHUFF32X4(Imm(odd), hi, lo, in[(2+h)*part+c])
		}
	}
	return in
}
