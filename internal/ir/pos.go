package ir

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Pos is a position in the user's source, file.go:line; it is empty if unknown.
type Pos string

const module = "github.com/galley-ml/galley"

// layers lists the packages whose frames are never the user's own line.
var layers = []string{
	module + "/op.", module + "/nn.", module + "/optim.", module + ".", module + "/dtensor.",
	module + "/parallel.",
	module + "/fit.", module + "/eager.", module + "/internal/ir.", module + "/internal/runtime.",
	module + "/internal/pass.", module + "/internal/cpu.", "runtime.", "reflect.",
}

// Caller returns the nearest frame outside the framework's own layers.
func Caller() Pos {
	var pcs [48]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		frame, more := frames.Next()
		if frame.Function != "" && !isLayer(frame.Function) {
			return Pos(filepath.Base(frame.File) + ":" + strconv.Itoa(frame.Line))
		}
		if !more {
			return ""
		}
	}
}

func isLayer(function string) bool {
	for _, l := range layers {
		if strings.HasPrefix(function, l) {
			return true
		}
	}
	return false
}
