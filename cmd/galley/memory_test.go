package main

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAvailable: the least of what the machine, a control group of either version or one above it, and the
// limits of the process leave.
func TestAvailable(t *testing.T) {
	meminfo := "MemTotal: 100 kB\nMemAvailable:  64 kB\n"
	for _, x := range []struct {
		name  string
		files map[string]string
		want  float64
		by    string
	}{
		{"nothing known", nil, math.Inf(1), ""},
		{"machine", map[string]string{"proc/meminfo": meminfo}, 64 * 1024, "of the machine"},
		{"cgroup 2", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n",
			"sys/fs/cgroup/a/memory.max":   "50000\n", "sys/fs/cgroup/a/memory.current": "30000\n",
			"sys/fs/cgroup/a/memory.stat": "anon 5\ninactive_file 10000\n"}, 30000, "of its cgroup"},
		{"cgroup 1", map[string]string{"proc/self/cgroup": "5:cpu:/x\n4:memory:/m\n",
			"sys/fs/cgroup/memory/m/memory.limit_in_bytes": "9000",
			"sys/fs/cgroup/memory/m/memory.usage_in_bytes": "4000"}, 5000, "of its cgroup"},
		{"used up", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "10",
			"sys/fs/cgroup/memory.current": "20"}, 0, "of its cgroup"},
		{"limit", map[string]string{"proc/meminfo": meminfo,
			"proc/self/status": "VmSize:\t 10 kB\nVmData:\t 4 kB\n",
			"proc/self/limits": "Max data size             unlimited            unlimited            bytes\nMax " +
				"address space         20480                unlimited            bytes\n"},
			10240, "by its resource limit, max address space"},
	} {
		root := t.TempDir()
		for name, text := range x.files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if got, by := (host{root: root}).available(); got != x.want || by != x.by {
			t.Errorf("%s: got %v (%s), want %v (%s)", x.name, got, by, x.want, x.by)
		}
	}
}

// TestDoesNotFit: a step that is planned to take more than a limit lets is refused in a line, with a batch
// that fits.
func TestDoesNotFit(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell to set a limit")
	}
	c := command()
	c.Path, c.Args = sh, []string{"sh", "-c",
		`ulimit -v 3000000 && exec "$0" train --steps 1 --batch 256 --seq 512 --dim 64 --layers 2 --heads 2 --tokens 0 --threads 1`, os.Args[0]}
	c.Stderr = nil
	out, err := c.CombinedOutput()
	if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != exitUsage || !strings.Contains(string(out),
		"resource limit") || !strings.Contains(string(out), "would fit") {
		t.Errorf("got %v:\n%s", err, out)
	}
}
