package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// philoxKernels emits the words of consecutive Philox blocks, dst[4*i+k] = word k of block+i,
// as float32 in [0,1) and as integers. The length must be a multiple of twice the vector
// width.
//
// A block's four words are in the low halves of the same 64-bit lane of four registers, where
// VPMULUDQ wants them; the high halves hold garbage that it ignores. Even lanes hold the first
// half of the blocks and odd lanes the second, so that two unpacks put the words into their
// order in memory.
func (s isa) philoxKernels() {
	order := s.philoxOrder()
	s.function("philoxUniform", "(dst []float32, key [2]uint32, block uint64)")
	s.philoxLoop(order, s.zero(), func(w vec) vec {
		VPSRLD(operand.U8(8), w, w)
		VCVTDQ2PS(w, w)
		return s.mul(w, c(1.0/(1<<24)))
	})
	s.function("philoxWords", "(dst []uint32, key [2]uint32, block uint64, third uint32)")
	s.philoxLoop(order, s.lanes32("third"), func(w vec) vec { return w })
}

// philoxLoop emits a kernel body that stores the words after convert.
func (s isa) philoxLoop(order operand.Mem, third vec, convert func(w vec) vec) {
	dst, n := Load(Param("dst").Base(), GP64()), Load(Param("dst").Len(), GP64())
	blocks := s.philoxStart(order)
	k0, k1 := s.lanes32("key", 0), s.lanes32("key", 1)
	JMP(operand.LabelRef("check"))
	Label("next")
	words := s.philoxRounds(blocks, third, s.load(k0), s.load(k1))
	for half, w := range s.interleave(words) {
		VMOVUPS(convert(w), operand.Mem{Base: dst, Disp: 4 * s.width * half})
	}
	s.with(VPADDQ, VPADDQ_BCST, bits64(uint64(s.width/2)), blocks, blocks)
	ADDQ(operand.I32(8*s.width), dst)
	Label("check")
	SUBQ(operand.I32(2*s.width), n)
	JGE(operand.LabelRef("next"))
	finish()
}

// philoxOrder is the offset of the block in each 64-bit lane.
func (s isa) philoxOrder() operand.Mem {
	m := GLOBL("blocks"+s.name, attr.RODATA|attr.NOPTR)
	lanes := s.width / 2
	for i := range lanes {
		DATA(8*i, operand.U64(uint64(i/2+i%2*lanes/2)))
	}
	return m
}

// philoxStart returns the numbers of the first blocks.
func (s isa) philoxStart(order operand.Mem) vec {
	v := s.reg()
	VPBROADCASTQ(address(Param("block")), v)
	VPADDQ(order, v, v)
	return v
}

// lanes32 returns a register with a 32-bit parameter, or an element of one, in
// every lane. It goes through a general register because go vet misjudges the
// size of VPBROADCASTD's memory operand.
func (s isa) lanes32(name string, index ...int) vec {
	p := Param(name)
	for _, i := range index {
		p = p.Index(i)
	}
	x, v := XMM(), s.reg()
	VMOVD(Load(p, GP32()), x)
	VPBROADCASTD(x, v)
	return v
}

func (s isa) philoxRounds(blocks, third, k0, k1 vec) [4]vec {
	w := [4]vec{s.load(blocks), s.reg(), third, s.zero()}
	VPSRLQ(operand.U8(32), blocks, w[1])
	for round := range 10 {
		p0 := s.into(VPMULUDQ, VPMULUDQ_BCST, bits64(0xD2511F53), w[0])
		p1 := s.into(VPMULUDQ, VPMULUDQ_BCST, bits64(0xCD9E8D57), w[2])
		w = [4]vec{s.mix(p1, w[1], k0), p1, s.mix(p0, w[3], k1), p0}
		if round < 9 {
			k0, k1 = s.addInt(k0, bits32(0x9E3779B9)), s.addInt(k1, bits32(0xBB67AE85))
		}
	}
	return w
}

// mix returns the high half of product, in the low, xor word xor key.
func (s isa) mix(product, word, key vec) vec {
	h := s.reg()
	VPSRLQ(operand.U8(32), product, h)
	if s.wide() {
		VPTERNLOGD(operand.U8(0x96), word, key, h)
		return h
	}
	VPXOR(word, h, h)
	VPXOR(key, h, h)
	return h
}

// interleave joins words 0,1 and 2,3 of a block in 64-bit lanes and unpacks.
func (s isa) interleave(w [4]vec) [2]vec {
	var pair [2]reg.VecVirtual
	for i := range pair {
		high := s.reg()
		VPSLLQ(operand.U8(32), w[2*i+1], high)
		pair[i] = s.lowHalves(w[2*i], high)
	}
	lo, hi := s.reg(), s.reg()
	VPUNPCKLQDQ(pair[1], pair[0], lo)
	VPUNPCKHQDQ(pair[1], pair[0], hi)
	return [2]vec{lo, hi}
}

// lowHalves returns the low half of each 64-bit lane of low and the rest of high.
func (s isa) lowHalves(low, high vec) vec {
	if s.wide() {
		return s.into(VPORQ, nil, high, s.into(VPANDQ, VPANDQ_BCST, bits64(0xffffffff), low))
	}
	d := s.reg()
	VPBLENDD(operand.U8(0xaa), high, low, d)
	return d
}
