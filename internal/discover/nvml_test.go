//go:build linux && (amd64 || arm64)

package discover

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// library compiles a C file of testdata.
func library(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if text, err := exec.Command("cc", "-shared", "-fPIC", "-o", path,
		filepath.Join("testdata", name)).CombinedOutput(); err != nil {
		t.Skipf("no C compiler: %v\n%s", err, text)
	}
	return path
}

// TestNVML: GPUs are as the library says, with what joins every two of them.
func TestNVML(t *testing.T) {
	t.Setenv(nvmlVariable, library(t, "nvml.c"))
	const nvlink, switches = "nvlink", "PCIe switches"
	gpu := GPU{Name: "GPU of a test", Memory: 80 << 30, PCIe: 16 * pcieBytes[5]}
	joined := gpu
	joined.NVLinks, joined.NVLink = 12, 25e9
	want := []GPU{joined, joined, gpu}
	want[0].Paths = []string{"itself", nvlink, switches}
	want[1].Paths = []string{nvlink, "itself", switches}
	want[2].Paths = []string{switches, switches, "itself"}
	for range 2 { // it is closed in between
		m := Machine(fstest.MapFS{})
		if d := cmp.Diff(want, m.GPUs); d != "" || m.NoGPUs != "" {
			t.Errorf("%s%s", m.NoGPUs, d)
		}
	}
}

// TestOldNVML: a library without a function is refused by the function's name.
func TestOldNVML(t *testing.T) {
	t.Setenv(nvmlVariable, "libm.so.6")
	if m := Machine(fstest.MapFS{}); len(m.GPUs) > 0 || !strings.Contains(m.NoGPUs, "no function nvmlInit_v2") {
		t.Errorf("got %+v", m)
	}
}
