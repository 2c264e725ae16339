package export_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/export"
)

// TestRanks: every process is on the host and in the place of its device, in the plan's order.
func TestRanks(t *testing.T) {
	c, err := cluster.Parse("2x2 H100-SXM ib=400G")
	if err != nil {
		t.Fatal(err)
	}
	got, err := export.Ranks("mpirun", c, []int{0, 2, 1, 3})
	want := "rank 0=+n0 slot=0\nrank 1=+n1 slot=0\nrank 2=+n0 slot=1\nrank 3=+n1 slot=1\n"
	if err != nil || !strings.HasSuffix(got, want) {
		t.Errorf("mpirun: got %v and %s, want %s", err, got, want)
	}
	got, err = export.Ranks("slurm", c, nil)
	if err != nil || !strings.Contains(got, "for i in 0 0 1 1;") || !strings.Contains(got, "--ntasks=4") {
		t.Errorf("slurm: got %v and %s", err, got)
	}
	if out, err := exec.Command("bash", "-n", "-c", got).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := export.Ranks("ssh", c, nil); err == nil || !strings.Contains(err.Error(), "mpirun, slurm") {
		t.Errorf("got %v", err)
	}
}
