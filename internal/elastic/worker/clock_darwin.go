package worker

import "golang.org/x/sys/unix"

// steadyClock counts from the host's start, sleep included: on this system the monotonic clock does.
const steadyClock = unix.CLOCK_MONOTONIC
