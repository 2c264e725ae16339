package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
)

// fits compares what a command is going to need with what it may take: the system ends a process that takes
// more, without a word. Where the machine does not say, all fits.
func fits(what string, bytes float64) error {
	if free, by := (host{root: "/"}).available(); bytes > free {
		return fmt.Errorf("%s: it needs at least %s of memory: %s are available (%s)", what,
			gigabytes(bytes), gigabytes(free), by)
	}
	return nil
}

// fitsPlan compares what a trainer has planned with what the process may take, and says which batch would
// fit.
func (t *training) fitsPlan(trainer *galley.Trainer) error {
	need, err := t.needs(trainer, t.Batch)
	expected.Store(uint64(max(0, need)))
	setGarbage()
	free, by := (host{root: "/"}).available()
	if err != nil || margin(need) <= free {
		return err
	}
	hint := "no batch would fit: take a smaller model, --mesh with --zero 3, or --recompute full"
	for b := t.Batch / 2; b >= 1; b /= 2 {
		if n, err := t.needs(trainer, b); err == nil &&
			margin(n) <= free { // an error is of rows that cannot be cut so
			hint = fmt.Sprintf("--batch=%d would fit, with %s", b, gigabytes(n))
			break
		}
	}
	return fmt.Errorf("training: it needs %s of memory: %s are available (%s): %s", gigabytes(need),
		gigabytes(free), by, hint)
}

// margin returns what a process takes that needs so much for tensors: memory comes in blocks, and Go has its
// own.
func margin(bytes float64) float64 { return 1.05*bytes + 128e6 }

// needs returns what training on batches of so many rows takes; a checkpoint is a copy of the state besides.
func (t *training) needs(trainer *galley.Trainer, batch int) (float64, error) {
	types := typesOf(t.text.From(0))
	for i := range types {
		types[i].Shape = append(array.Shape{batch}, types[i].Shape[1:]...)
	}
	bytes, err := trainer.MemoryRequired(types...)
	need := float64(bytes)
	if t.Checkpoint != "" {
		for _, p := range t.model.Params() {
			need += 3 * float64(p.Type.Bytes())
		}
	}
	return need, err
}

// garbageBytes is about how much garbage may be beside the devices' memory.
const garbageBytes = 16 << 20

// limitGarbage has garbage collected before it comes to 2 % of the memory in use, or garbageBytes.
// Nearly all of that is the devices', taken once for the run: Go's own rule would wait for as much garbage.
// Who sets GOGC has chosen.
func limitGarbage() { paceGarbage(new(int64)) }

// expected is what a run is going to take: before the collection that sees the devices' memory for the first
// time there may be no more garbage than after it.
var expected atomic.Uint64

// paceGarbage sets how much garbage there may be by what the last collection left, and again after the next:
// each of them finds the mark that was left behind by the one before.
func paceGarbage(*int64) {
	setGarbage()
	runtime.SetFinalizer(new(int64), paceGarbage)
}

func setGarbage() {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(max(2, min(100, int(100*garbageBytes/max(1, live[0].Value.Uint64(), expected.Load())))))
}

// host is the system as its files describe it, below a root.
type host struct{ root string }

// available returns how many bytes this process may still take, and what says so; infinite where nothing
// does.
func (h host) available() (bytes float64, by string) {
	bytes = math.Inf(1)
	least := func(x float64, name string) {
		if x < bytes {
			bytes, by = max(x, 0), name
		}
	}
	if x, ok := kilobytes(field(h.path("proc/meminfo"), "MemAvailable")); ok {
		least(x, "of the machine")
	}
	least(h.cgroup(), "of its cgroup")
	for _, l := range []struct{ name, used string }{{"Max address space", "VmSize"}, {"Max data size",
		"VmData"}} {
		if used, ok := kilobytes(field(h.path("proc/self/status"), l.used)); ok {
			least(h.rlimit(l.name)-used, "by its resource limit, "+strings.ToLower(l.name))
		}
	}
	return bytes, by
}

func (h host) path(p string) string { return filepath.Join(h.root, p) }

// kilobytes reads a number like 123 kB, in bytes.
func kilobytes(s string) (float64, bool) {
	kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(s, "kB")), 64)
	return kb * 1024, err == nil
}

// rlimit returns the soft limit of a resource in bytes, infinite where there is none.
func (h host) rlimit(name string) float64 {
	text, _ := os.ReadFile(h.path("proc/self/limits"))
	for line := range strings.SplitSeq(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				if x, err := strconv.ParseFloat(f[0], 64); err == nil {
					return x
				}
			}
		}
	}
	return math.Inf(1)
}

// cgroup returns what the process's control group, and those above it, have left; infinite where there is no
// limit. Files that the system can forget do not count as used.
func (h host) cgroup() float64 {
	least := math.Inf(1)
	text, _ := os.ReadFile(h.path("proc/self/cgroup"))
	for line := range strings.SplitSeq(string(text), "\n") {
		part := strings.SplitN(line, ":", 3)
		if len(part) < 3 {
			continue
		}
		base, limit, used, cached := "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
		if part[1] == "memory" { // version 1
			base, limit, used, cached = "sys/fs/cgroup/memory", "memory.limit_in_bytes",
				"memory.usage_in_bytes", "total_inactive_file"
		} else if part[1] != "" {
			continue
		}
		for dir := filepath.Clean("/" + part[2]); ; dir = filepath.Dir(dir) {
			at := h.path(filepath.Join(base, dir))
			if left, ok := left(at, limit, used, cached); ok {
				least = min(least, left)
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}

// left returns what one control group has left.
func left(dir, limit, used, cached string) (float64, bool) {
	most, err := numberIn(filepath.Join(dir, limit))
	if err != nil {
		return 0, false // max, or no such file
	}
	now, err := numberIn(filepath.Join(dir, used))
	if err != nil {
		return 0, false
	}
	stat, _ := os.ReadFile(filepath.Join(dir, "memory.stat"))
	for line := range strings.SplitSeq(string(stat), "\n") {
		if f := strings.Fields(line); len(f) == 2 && f[0] == cached {
			if x, err := strconv.ParseFloat(f[1], 64); err == nil {
				now -= x
			}
		}
	}
	return most - max(now, 0), true
}

func numberIn(path string) (float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
}
