package worker

import "golang.org/x/sys/unix"

// steadyClock counts from the host's start, sleep included.
const steadyClock = unix.CLOCK_BOOTTIME
