package main

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/galley-ml/galley/internal/discover"
)

// allowedThreads returns the hardware threads that this process may run on.
func allowedThreads() (list []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			list = append(list, i)
		}
	}
	return list, nil
}

// preferred is set_mempolicy's MPOL_PREFERRED: memory of a node, while it has some.
const preferred = 1

// bindSelf binds this process as its launcher requests, and executes it anew: Go counts the threads that it
// may use at start, and the binding outlasts exec.
func bindSelf() error {
	text := os.Getenv(bindVariable)
	if text == "" {
		return nil
	}
	s, err := discover.ParseShare(text)
	if err != nil {
		return fmt.Errorf("%s: %w", bindVariable, err)
	}
	if err := os.Unsetenv(bindVariable); err != nil {
		return err
	}
	runtime.LockOSThread() // the new program runs on this thread
	var set unix.CPUSet
	for _, cpu := range s.CPUs {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("%s=%s: %w", bindVariable, text, err)
	}
	if s.Node >= 0 {
		var mask [16]uint64
		mask[s.Node/64] = 1 << (s.Node % 64)
		// Without NUMA, or if the system forbids it, memory is placed as the system chooses.
		_, _, _ = unix.Syscall(
			unix.SYS_SET_MEMPOLICY,
			preferred,
			uintptr(unsafe.Pointer(&mask[0])),
			uintptr(len(mask)*64),
		)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return unix.Exec(self, os.Args, os.Environ())
}
