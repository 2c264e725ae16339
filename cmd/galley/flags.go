package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// positive checks flags that must be at least one; the error names the first bad one by name.
func positive(flags map[string]int) error { return inRange(1, flags) }

// natural checks flags that must not be negative.
func natural(flags map[string]int) error { return inRange(0, flags) }

// most has the largest allowed values of flags, by name: larger ones are mistakes, with which a command would
// not end.
var most = map[string]int{
	"threads": 1 << 12, "devices": 1 << 12, "batch": 1 << 24, "seq": 1 << 24, "micro": 1 << 24,
	"layers": 1 << 14, "dim": 1 << 24,
	"heads": 1 << 16, "kv-heads": 1 << 16, "head-dim": 1 << 16, "ffn": 1 << 26, "vocab": 1 << 30, "top": 1 << 16,
}

func inRange(low int, flags map[string]int) error {
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		n := flags[name]
		high, limited := most[name]
		switch {
		case n < low:
			return fmt.Errorf("--%s=%d: want at least %d", name, n, low)
		case limited && n > high:
			return fmt.Errorf("--%s=%d: want %d to %d", name, n, low, high)
		}
	}
	return nil
}

// between checks numbers that must be in a range; high may be infinite.
func between(low, high float64, flags map[string]float64) error {
	want := fmt.Sprintf("%v to %v", low, high)
	if math.IsInf(high, 1) {
		want = fmt.Sprintf("a number of at least %v", low)
	}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		x := flags[name]
		if !(x >= low && x <= high) || math.IsInf(x, 0) { // NaN is in no range
			return fmt.Errorf("--%s=%v: want %s", name, x, want)
		}
	}
	return nil
}

// memoryOf returns a value of /proc/meminfo in bytes; 0 if there is none.
func memoryOf(key string) float64 {
	kb, err := strconv.ParseFloat(strings.TrimSuffix(field("/proc/meminfo", key), " kB"), 64)
	if err != nil {
		return 0
	}
	return kb * 1024
}

func gigabytes(bytes float64) string { return fmt.Sprintf("%.1f GB", bytes/1e9) }

// writable returns an error if files cannot be created in dir, or dir itself if it does not exist yet. It
// leaves no files behind. A run of hours should not fail when it writes its result.
func writable(dir string) error {
	for {
		_, err := os.Stat(dir)
		if err == nil {
			break
		}
		up := filepath.Dir(dir)
		if !os.IsNotExist(err) || up == dir {
			return reason(dir, err)
		}
		dir = up
	}
	f, err := os.CreateTemp(dir, ".galley-*")
	if err != nil {
		return reason(dir, err)
	}
	f.Close()
	return os.Remove(f.Name())
}

// reason returns the cause of an error with the path as the user gave it.
func reason(path string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("%s: cannot be written: %w", path, err)
}
