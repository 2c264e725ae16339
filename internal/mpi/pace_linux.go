package mpi

import (
	"time"

	"golang.org/x/sys/unix"
)

// yield gives the core to another process.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// nap sleeps for a short time. time.Sleep would take a millisecond in an otherwise idle process.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil)
}
