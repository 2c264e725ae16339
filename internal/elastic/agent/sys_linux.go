package agent

import "golang.org/x/sys/unix"

// memoryBytes returns the host's memory.
func memoryBytes() int64 {
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		return 0
	}
	return int64(s.Totalram) * int64(s.Unit)
}

// room returns the free space of a file system.
func room(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
