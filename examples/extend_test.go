package examples_test

import (
	"os"
	"os/exec"
	"testing"
)

// TestExtend runs the tests of examples/extend, a module of its own: what it adds to Galley is made of the
// public packages alone, since Go lets no other module import internal ones.
func TestExtend(t *testing.T) {
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command")
	}
	cmd := exec.Command(tool, "test", "./...")
	cmd.Dir = "extend"
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOPROXY=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go test ./...: %v\n%s", err, out)
	}
}
