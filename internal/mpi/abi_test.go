//go:build (linux || darwin) && (amd64 || arm64)

package mpi

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestStandardABI: a library with MPI's standard binary interface is known by what it says, and carries jobs.
func TestStandardABI(t *testing.T) {
	if _, err := Library(MPICH); err != nil {
		t.Skipf("MPICH is not installed: %v", err)
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed")
	}
	file := filepath.Join(t.TempDir(), "libmpi_abi.so.0")
	out, err := exec.Command(gcc, "-shared", "-fPIC", "-O1", "-o", file, "testdata/abi.c",
		"-ldl").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv(LibraryVariable, file)
	if version, err := Library(MPICH); err != nil || !strings.Contains(version, "(standard ABI)") {
		t.Errorf("got %s and %v", version, err)
	}
	if _, err := Library(OpenMPI); err == nil || !strings.Contains(err.Error(), "is MPICH: want Open MPI") {
		t.Errorf("as Open MPI's: got %v", err)
	}
	hydra := testLaunchers[1]
	for _, name := range []string{"programs", "panics", "pieces", "library"} {
		t.Run(name, func(t *testing.T) {
			out, err := hydra.launch(t, 2, name, "-test.run", "^TestWorker$", "-test.v")
			if err != nil || strings.Count(out, "--- PASS: TestWorker (") != 2 {
				t.Errorf("%v\n%s", err, tail(out))
			}
		})
	}
}
