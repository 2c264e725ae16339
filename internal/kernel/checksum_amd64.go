//go:build !noasm

package kernel

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"unsafe"

	"golang.org/x/sys/cpu"
)

func canCopySum() bool { return hasAVX512() && cpu.X86.HasAVX512VPCLMULQDQ }

// sumBlock is the number of bytes summed at a time.
const sumBlock = 256

// sumFold holds the factors that advance the two halves of a lane by a block. A carry-less product of two
// bit-reversed numbers is one bit short of twice the width: hence one power less.
var sumFold = func() (f [16]byte) {
	for i, power := range []int{8*sumBlock + 63, 8*sumBlock - 1} {
		binary.LittleEndian.PutUint64(f[8*i:], uint64(bits.Reverse32(powerOfX(power)))<<32)
	}
	return f
}()

// powerOfX returns x to the n modulo the polynomial of CRC-32C.
func powerOfX(n int) uint32 {
	const polynomial = 0x1EDC6F41
	p := uint32(1)
	for range n {
		top := p >> 31
		p = p<<1 ^ top*polynomial
	}
	return p
}

// copySumWide calls the assembly loop, which requires dst to begin on a cache line.
func copySumWide(dst, src []byte, crc uint32) uint32 {
	head := -int(uintptr(unsafe.Pointer(&dst[0]))) & 63
	crc = copySumPlain(dst[:head], src[:head], crc)
	dst, src = dst[head:], src[head:]
	n := len(src) / sumBlock
	var sum [sumBlock]byte
	copySumAVX512(n, &dst[0], &src[0], ^crc, &sumFold[0], &sum[0])
	crc = crc32.Update(^uint32(0), castagnoli, sum[:])
	return copySumPlain(dst[n*sumBlock:], src[n*sumBlock:], crc)
}
