package kernel

//go:generate go -C gen run ./checksum -out ../checksum_amd64.s -stubs ../checksum_stubs_amd64.go -pkg kernel

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CopySum copies src over as many bytes of dst and returns their CRC-32C, as crc32.Update does from crc on.
// It is one pass, of which the caches keep nothing where src is large.
func CopySum(dst, src []byte, crc uint32) uint32 {
	if n := len(src); n >= leastSummed && canCopySum() {
		return copySumWide(dst[:n], src, crc)
	}
	return copySumPlain(dst, src, crc)
}

// leastSummed is from how many bytes on the wide loop pays for its beginning and end; plainSummed how many
// are copied before they are summed up: what the first cache holds.
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
