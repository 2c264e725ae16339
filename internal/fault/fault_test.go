package fault

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// text is a program.
type text string

func (t text) String() string { return string(t) }

// broken is a program that cannot be printed.
type broken struct{}

func (broken) String() string { panic("no text") }

// facade calls f as the façade does.
func facade(f func()) (err error) {
	defer Recover("facade", &err)
	f()
	return nil
}

// TestProgramIsKept: the innermost program is in a file whose name is in the message, besides the stack.
func TestProgramIsKept(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	err := facade(func() {
		defer Pass("outer", text("func outer() {\n}\n"))
		func() {
			defer Pass("inner", text("func inner() {\n}\n"))
			panic("oops")
		}()
	})
	bug, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	if got, want := read(t, bug.Program), "func inner() {\n}\n"; got != want {
		t.Errorf("the program is %q, want %q", got, want)
	}
	if stack := read(t, bug.Report); !strings.HasPrefix(stack, "oops\n") ||
		!strings.Contains(stack, "TestProgramIsKept") {
		t.Errorf("the stack is %q", stack)
	}
	for _, part := range []string{"facade: inner: oops", bug.Report,
		"the program before inner, " + bug.Program} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v: want %q", err, part)
		}
	}
}

// TestWithoutProgram: a fault outside of any pass has its stack; one of a program that does not print says
// so.
func TestWithoutProgram(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	bug, _ := errors.AsType[*Error](facade(func() { panic("oops") }))
	if bug == nil || bug.Program != "" || !strings.Contains(read(t, bug.Report), "oops") {
		t.Errorf("got %+v", bug)
	}
	bug, _ = errors.AsType[*Error](facade(func() {
		defer Pass("print", broken{})
		panic("oops")
	}))
	if bug == nil || !strings.Contains(read(t, bug.Program), "does not print: no text") {
		t.Errorf("got %+v", bug)
	}
	if err := facade(func() { defer Pass("fine", text("")) }); err != nil {
		t.Errorf("without a panic: got %v", err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
