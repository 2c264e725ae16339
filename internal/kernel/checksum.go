package kernel

//go:generate go -C gen run ./checksum -out ../checksum_amd64.s -stubs ../checksum_stubs_amd64.go -pkg kernel

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CopySum copies src to the beginning of dst and returns the CRC-32C of it, continued from crc as
// crc32.Update does. It is one pass, which bypasses the caches if src is large.
func CopySum(dst, src []byte, crc uint32) uint32 {
	if n := len(src); n >= leastSummed && canCopySum() {
		return copySumWide(dst[:n], src, crc)
	}
	return copySumPlain(dst, src, crc)
}

// leastSummed is the number of bytes from which the vector loop is faster; plainSummed is the number of bytes
// that are copied before they are summed: they fit the L1 cache.
const (
	leastSummed = 4 << 10
	plainSummed = 32 << 10
)

func copySumPlain(dst, src []byte, crc uint32) uint32 {
	for len(src) > 0 {
		n := copy(dst, src[:min(len(src), plainSummed)])
		crc = crc32.Update(crc, castagnoli, dst[:n])
		dst, src = dst[n:], src[n:]
	}
	return crc
}
