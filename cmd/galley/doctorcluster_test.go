package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/mpi"
)

// TestDoctorCluster: what is discovered is a cluster that the planner reads, with one process and with two,
// whose link is the measured one.
func TestDoctorCluster(t *testing.T) {
	notShort(t)
	for _, n := range []int{1, 2} {
		args := []string{}
		if n > 1 {
			if _, err := mpi.Library(mpi.MPICH); err != nil {
				t.Skipf("MPICH is not installed: %v", err)
			}
			args = strings.Fields("launch -n 2 --")
		}
		file := filepath.Join(t.TempDir(), "cluster.json")
		out, err := galleyCommand(t, append(args, "doctor", "--cluster", "-o", file)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "topology") || strings.Count(string(out), "wrote") != 1 {
			t.Fatalf("%d: got %v and %s", n, err, out)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := cluster.Parse(string(text))
		if err != nil || c.Size() != n {
			t.Fatalf("%d: got %v and %s", n, err, text)
		}
		if f := c.Groups[0].Fabric; n > 1 && (f.Kind != "process" || f.Latency <= 0 || len(c.Measured) == 0) {
			t.Errorf("got the link %+v and %d measurements", f, len(c.Measured))
		}
		if out, err := galleyCommand(t, "plan", "gpt2", file).CombinedOutput(); err != nil ||
			!strings.Contains(string(out), "on discovered") {
			t.Errorf("plan: got %v and %s", err, out)
		}
	}
	for line, want := range map[string]string{"doctor -o x": "--output", "doctor --cluster --fast": "--fast"} {
		if out, err := galleyCommand(t, strings.Fields(line)...).CombinedOutput(); err == nil ||
			!strings.Contains(string(out), want) {
			t.Errorf("%s: got %v and %s", line, err, out)
		}
	}
}
