package worker

import "golang.org/x/sys/unix"

// steadyClock counts from the host's boot, including sleep, as the monotonic clock does on this system.
const steadyClock = unix.CLOCK_MONOTONIC
