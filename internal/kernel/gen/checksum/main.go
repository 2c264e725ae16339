// Command checksum generates the kernel that copies memory and computes its CRC-32C.
//
// Four vectors of 512 bits hold a sum of 256 bytes with the same CRC as all bytes so far: each lane of 128
// bits is multiplied by x^2048 modulo the polynomial, in two carry-less products, and the next bytes are
// added. The caller computes the CRC of the last sum. Stores bypass the caches, because the copy is not read
// soon.
package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const vectors, bytes = 4, 64

func main() {
	ConstraintExpr("!noasm")
	TEXT("copySumAVX512", attr.NOSPLIT, "func(blocks int, dst, src *byte, crc uint32, fold, sum *byte)")
	Doc("copySumAVX512 copies blocks of 256 bytes to dst, whose address 64 divides. sum becomes 256 bytes",
		"whose CRC, from 0 on, is that of all bytes from the register crc on; fold has the factors of a lane.")
	Pragma("noescape")
	blocks, dst, src := Load(Param("blocks"), GP64()), Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	factors := ZMM()
	VBROADCASTI64X2(Mem{Base: Load(Param("fold"), GP64())}, factors)
	var sums [vectors]reg.VecVirtual
	for i := range sums {
		sums[i] = ZMM()
		VMOVDQU64(Mem{Base: src, Disp: bytes * i}, sums[i])
		VMOVNTDQ(sums[i], Mem{Base: dst, Disp: bytes * i})
	}
	first := ZMM()
	VMOVD(Load(Param("crc"), GP32()), first.AsX())
	VPXORQ(first, sums[0], sums[0])
	low, high, data := ZMM(), ZMM(), ZMM()
	Label("block")
	DECQ(blocks)
	JZ(LabelRef("done"))
	ADDQ(U32(vectors*bytes), src)
	ADDQ(U32(vectors*bytes), dst)
	for i := range sums {
		VMOVDQU64(Mem{Base: src, Disp: bytes * i}, data)
		VMOVNTDQ(data, Mem{Base: dst, Disp: bytes * i})
		VPCLMULQDQ(Imm(0x00), factors, sums[i], low)
		VPCLMULQDQ(Imm(0x11), factors, sums[i], high)
		VPTERNLOGQ(Imm(0x96), low, high, data)
		VMOVDQA64(data, sums[i])
	}
	JMP(LabelRef("block"))
	Label("done")
	out := Load(Param("sum"), GP64())
	for i := range sums {
		VMOVDQU64(sums[i], Mem{Base: out, Disp: bytes * i})
	}
	SFENCE()
	VZEROUPPER()
	RET()
	Generate()
}
