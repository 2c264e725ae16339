package kernel

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// adviseHuge asks for huge pages under b. Its first and last ones reach beyond it, into memory of the same
// heap; what they hold does not change. Memory that was used before is in small pages: they are collapsed.
func adviseHuge(b []byte) {
	first := uintptr(unsafe.Pointer(&b[0])) &^ (hugePage - 1)
	before := uintptr(unsafe.Pointer(&b[0])) - first
	length := (before + uintptr(len(b)) + hugePage - 1) &^ (hugePage - 1)
	unix.Syscall(unix.SYS_MADVISE, first, length, unix.MADV_HUGEPAGE)
	unix.Syscall(unix.SYS_MADVISE, first, length, unix.MADV_COLLAPSE)
}
