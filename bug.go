package galley

import (
	"fmt"
	"os"
	"runtime/debug"
)

// BugError is a fault of Galley's own, caught where it left the framework.
type BugError struct {
	// What went wrong, and where it was.
	What any
	// Report is the file that holds the stack.
	Report string
}

func (e *BugError) Error() string {
	return fmt.Sprintf("bug in galley: %v: please report it with %s", e.What, e.Report)
}

// recoverBug turns a panic into an error and keeps the stack in a file: the one recover of the framework's own bugs.
func recoverBug(name string, err *error) {
	what := recover()
	if what == nil {
		return
	}
	bug := &BugError{What: fmt.Sprintf("%s: %v", name, what), Report: "standard error"}
	stack := fmt.Sprintf("%v\n\n%s", what, debug.Stack())
	if f, ferr := os.CreateTemp("", "galley-bug-*.txt"); ferr == nil {
		defer f.Close()
		if _, werr := f.WriteString(stack); werr == nil {
			bug.Report = f.Name()
		}
	}
	*err = bug
}
