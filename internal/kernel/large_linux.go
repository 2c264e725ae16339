package kernel

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// adviseHuge requests huge pages for b; the first and last extend beyond it, into memory of the same heap,
// whose contents do not change. Small pages of memory that was used before are collapsed into huge ones.
func adviseHuge(b []byte) {
	first := uintptr(unsafe.Pointer(&b[0])) &^ (hugePage - 1)
	before := uintptr(unsafe.Pointer(&b[0])) - first
	length := (before + uintptr(len(b)) + hugePage - 1) &^ (hugePage - 1)
	unix.Syscall(unix.SYS_MADVISE, first, length, unix.MADV_HUGEPAGE)
	unix.Syscall(unix.SYS_MADVISE, first, length, unix.MADV_COLLAPSE)
}

// populate makes the system allocate the whole huge pages of b; their contents are kept.
func populate(b []byte) {
	first := (uintptr(unsafe.Pointer(&b[0])) + hugePage - 1) &^ (hugePage - 1)
	end := (uintptr(unsafe.Pointer(&b[0])) + uintptr(len(b))) &^ (hugePage - 1)
	for ; first < end; first += hugePage {
		unix.Syscall(unix.SYS_MADVISE, first, hugePage, unix.MADV_POPULATE_WRITE)
	}
}
