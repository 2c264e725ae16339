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

// sumBlock is how many bytes are summed up at a time.
const sumBlock = 256

// sumFold is the factors of the halves of a lane that take it a block further. A product without carries of
// two numbers whose bits are in reverse is one place short of twice the bits: hence one power less.
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

// copySumWide is the loop in assembly, which wants dst to begin a line of memory.
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
