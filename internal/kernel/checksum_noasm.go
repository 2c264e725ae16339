//go:build !amd64 || noasm

package kernel

func canCopySum() bool { return false }

func copySumWide(dst, src []byte, crc uint32) uint32 { return copySumPlain(dst, src, crc) }
