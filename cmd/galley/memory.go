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

// fits returns an error if a command needs more memory than is available: the system kills a process that
// exceeds it, without a message. If the limit is not known, everything fits.
func fits(what string, bytes float64) error {
	if free, by := (host{root: "/"}).available(); bytes > free {
		return fmt.Errorf("%s: it needs at least %s of memory: %s are available (%s)", what,
			gigabytes(bytes), gigabytes(free), by)
	}
	return nil
}

// fitsPlan returns an error if the trainer's plan needs more memory than is available, and which batch size
// would fit.
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
			margin(n) <= free { // an error means that rows cannot be split so
			hint = fmt.Sprintf("--batch=%d would fit, with %s", b, gigabytes(n))
			break
		}
	}
	return fmt.Errorf("training: it needs %s of memory: %s are available (%s): %s", gigabytes(need),
		gigabytes(free), by, hint)
}

// margin returns the memory of a process whose tensors need bytes: blocks are rounded up, and Go has its own
// memory.
func margin(bytes float64) float64 { return 1.05*bytes + 128e6 }

// needs returns the memory of training on batches of batch rows, with a copy of the state for checkpoints.
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

// garbageBytes is about how much garbage there may be besides the devices' memory.
const garbageBytes = 16 << 20

// limitGarbage collects garbage before it reaches 2 % of the memory in use, or garbageBytes if that is more.
// Nearly all memory is the devices', allocated once for the run: Go's default would wait for as much garbage.
// A GOGC that the user has set is kept.
func limitGarbage() { paceGarbage(new(int64)) }

// expected is the memory that the run will need: the garbage limit uses it until a collection has seen the
// devices' memory.
var expected atomic.Uint64

// paceGarbage sets the garbage limit by the live heap after the last collection. Its finalizer runs after the
// next collection and sets it again.
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

// host reads the system's memory limits from files below a root directory.
type host struct{ root string }

// available returns how many bytes this process may still allocate, and the name of the tightest limit;
// infinite without a limit.
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

// kilobytes parses a number like 123 kB and returns bytes.
func kilobytes(s string) (float64, bool) {
	kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(s, "kB")), 64)
	return kb * 1024, err == nil
}

// rlimit returns the soft limit of a resource in bytes, infinite if there is none.
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

// cgroup returns the memory left in the process's control group and those above it; infinite if there is no
// limit. File caches that the system can drop do not count as used.
func (h host) cgroup() float64 {
	least := math.Inf(1)
	text, _ := os.ReadFile(h.path("proc/self/cgroup"))
	for line := range strings.SplitSeq(string(text), "\n") {
		part := strings.SplitN(line, ":", 3)
		if len(part) < 3 {
			continue
		}
		base, limit, used, cached := "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
		if part[1] == "memory" { // cgroup version 1
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

// left returns the memory left in one control group.
func left(dir, limit, used, cached string) (float64, bool) {
	most, err := numberIn(filepath.Join(dir, limit))
	if err != nil {
		return 0, false // the text max, or no such file
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
