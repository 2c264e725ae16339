package step

import (
	"errors"
	"os"
	"testing"

	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// TestFaultKeepsTheProgram: what panics while a step is planned, or while a device runs, leaves the program
// before it in a file that parses.
func TestFaultKeepsTheProgram(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c := sample{2, 1, 2, "1f1b", 0}.config(t)
	want := c.Forwards[0].String()
	c.Marks = func(string) (mesh.Sharding, bool) { panic("no such mark") }
	if _, got := keptProgram(t, func() error { _, err := New(c); return err }); got != want {
		t.Errorf("the program is\n%s\nwant\n%s", got, want)
	}
	p := sample{1, 2, 1, "1f1b", 0}.step(t)
	p.tapes[1].code[0].arena = len(p.tapes[1].buffers) // a buffer that is not there
	bug, _ := keptProgram(t, func() error { return playBroken(t, p) })
	if bug == nil || bug.Report == "" {
		t.Errorf("got %+v", bug)
	}
}

// keptProgram returns the fault of f, and the program in its file where it has one.
func keptProgram(t *testing.T, f func() error) (*fault.Error, string) {
	t.Helper()
	err := func() (err error) {
		defer fault.Recover("test", &err)
		return f()
	}()
	bug, ok := errors.AsType[*fault.Error](err)
	if !ok {
		t.Fatalf("got %v, want a fault", err)
	}
	if bug.Program == "" {
		return bug, ""
	}
	text, err := os.ReadFile(bug.Program)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ir.Parse(string(text), op.Lookup); err != nil {
		t.Errorf("what is kept does not parse: %v", err)
	}
	return bug, string(text)
}

// playBroken takes a step of a plan that cannot run.
func playBroken(t *testing.T, p *Plan) error {
	t.Helper()
	w, err := inproc.New(p.Devices())
	if err != nil {
		t.Fatal(err)
	}
	_, err = trainOn(w, p, 1)
	return err
}
