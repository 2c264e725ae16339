// Package fault tells the framework's own mistakes from its users'.
package fault

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Error is a fault of Galley's own, caught where it left the framework.
type Error struct {
	// What went wrong, and where it was.
	What any
	// Report is the file that holds the stack.
	Report string
}

func (e *Error) Error() string {
	return fmt.Sprintf("bug in galley: %v: please report it with %s", e.What, e.Report)
}

// Recover turns a panic into an error and keeps the stack in a file: the one recover of the framework's own
// bugs. A panic in a function that the user passed in is the user's, and goes on.
func Recover(name string, err *error) {
	what := recover()
	if what == nil {
		return
	}
	if !ours() {
		panic(what)
	}
	bug := &Error{What: fmt.Sprintf("%s: %v", name, what), Report: "standard error"}
	stack := fmt.Sprintf("%v\n\n%s", what, debug.Stack())
	if f, ferr := os.CreateTemp("", "galley-bug-*.txt"); ferr == nil {
		defer f.Close()
		if _, werr := f.WriteString(stack); werr == nil {
			bug.Report = f.Name()
		}
	}
	*err = bug
}

const module = "github.com/galley-ml/galley"

// ours reports whether the function that panicked is Galley's. It is called while the panic unwinds.
func ours() bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	panicked := false
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			panicked = true
		case f.Function == module+"/internal/fault.Recover":
			panicked = false // it passed on a panic from deeper down
		case panicked && !standard(f.Function):
			return strings.HasPrefix(f.Function, module+".") || strings.HasPrefix(f.Function, module+"/")
		}
		if !more {
			return true
		}
	}
}

// standard reports whether a function is of Go's own library: the first part of its package's path has no
// dot.
func standard(function string) bool {
	first, _, nested := strings.Cut(function, "/")
	return !strings.HasPrefix(function, "main.") && (!nested || !strings.Contains(first, "."))
}
