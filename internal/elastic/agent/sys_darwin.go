package agent

import "golang.org/x/sys/unix"

// memoryBytes returns 0: it is not known on this system.
func memoryBytes() int64 { return 0 }

// room returns the free space of a file system.
func room(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
