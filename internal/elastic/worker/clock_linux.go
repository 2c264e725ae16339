package worker

import "golang.org/x/sys/unix"

// steadyClock counts from the host's boot, including sleep.
const steadyClock = unix.CLOCK_BOOTTIME
