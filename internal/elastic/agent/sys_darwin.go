package agent

import "golang.org/x/sys/unix"

// memoryBytes is not known.
func memoryBytes() int64 { return 0 }

// room returns how much a file system can still take.
func room(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
