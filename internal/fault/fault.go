// Package fault tells the framework's own mistakes from its users'. What turns programs into others defers
// Pass, and the façade defers Recover: a bug of ours is then an error that names the pass, with the stack and
// the program before it in files.
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
	// Pass is what was done to a program, and Program the file that holds this program as it was before; both
	// are empty where none was at hand.
	Pass, Program string
}

func (e *Error) Error() string {
	text := fmt.Sprintf("bug in galley: %v: please report it with %s", e.What, e.Report)
	if e.Program != "" {
		text += fmt.Sprintf(" and the program before %s, %s", e.Pass, e.Program)
	}
	return text
}

// held is a panic on its way, with the program that was worked on.
type held struct {
	what    any
	pass    string
	program fmt.Stringer
	stack   []byte
}

// String returns the panic itself: a held one may end a program outside of Recover.
func (h *held) String() string { return fmt.Sprint(h.what) }

// Pass is deferred by what works on a program. A panic of ours continues with the program as it was before:
// the innermost one is kept.
func Pass(name string, program fmt.Stringer) {
	what := recover()
	if what == nil {
		return
	}
	if _, ok := what.(*held); ok || !ours() {
		panic(what)
	}
	panic(&held{what, name, program, debug.Stack()})
}

// Recover turns a panic into an error and keeps the stack and the program before it in files: the one recover
// of the framework's own bugs. A panic in a function that the user passed in is the user's, and continues.
func Recover(name string, err *error) {
	what := recover()
	if what == nil {
		return
	}
	h, ok := what.(*held)
	if !ok {
		h = &held{what: what, stack: debug.Stack()}
	}
	if !ours() {
		panic(h.what)
	}
	*err = report(name, h)
}

// report writes the files of a fault.
func report(name string, h *held) *Error {
	bug := &Error{What: fmt.Sprintf("%s: %v", name, h.what), Report: "standard error", Pass: h.pass}
	if h.pass != "" {
		bug.What = fmt.Sprintf("%s: %s: %v", name, h.pass, h.what)
	}
	path, ok := write("galley-bug-*.txt", fmt.Sprintf("%v\n\n%s", h.what, h.stack))
	if !ok {
		return bug
	}
	bug.Report = path
	if h.program == nil {
		return bug
	}
	if path, ok := write("galley-bug-*-program.txt", textOf(h.program)); ok {
		bug.Program = path
	}
	return bug
}

// write makes a file for temporary ones.
func write(pattern, text string) (path string, ok bool) {
	f, err := os.CreateTemp("", pattern)
	if err != nil {
		return "", false
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return f.Name(), err == nil
}

// textOf returns a program as text, or why it has none: what panicked may have left it broken.
func textOf(program fmt.Stringer) (text string) {
	defer func() {
		if what := recover(); what != nil {
			text = fmt.Sprintf("the program does not print: %v\n", what)
		}
	}()
	return program.String()
}

const module = "github.com/galley-ml/galley"

// ours reports whether the function that panicked is Galley's. It is called while the panic unwinds.
func ours() bool {
	var pcs [128]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	panicked := false
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			panicked = true
		case f.Function == module+"/internal/fault.Recover" || f.Function == module+"/internal/fault.Pass":
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
