package checkpoint

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// CorruptError is a checkpoint that cannot be used.
type CorruptError struct {
	// Path is the checkpoint's directory.
	Path string
	// File is the file in it that is bad; empty where it is no single one.
	File string
	Err  error
}

func (e *CorruptError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("checkpoint: %s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("checkpoint: %s: %s: %v", e.Path, e.File, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// NoneError says that a directory has no good checkpoint, or not the one that was asked for. Without Skipped nothing was
// ever saved there, and a fresh start is right; with it a run's work is at stake.
type NoneError struct {
	Dir string
	// What is the checkpoint that was asked for: "step 12"; empty for any.
	What string
	// Skipped is the bad ones, newest first.
	Skipped []*CorruptError
}

func (e *NoneError) Error() string {
	what := e.What
	if what == "" {
		what = "good checkpoint"
	}
	if len(e.Skipped) == 0 {
		return fmt.Sprintf("checkpoint: %s: no %s: start without one, or give the directory of a run that saved some", e.Dir, what)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "checkpoint: %s: no %s: %d bad", e.Dir, what, len(e.Skipped))
	for _, s := range e.Skipped {
		fmt.Fprintf(&b, "\n\t%v", s)
	}
	return b.String()
}

// SaveError is a checkpoint that could not be written. Those before it are as they were.
type SaveError struct {
	Step int64
	Dir  string
	Err  error
}

func (e *SaveError) Error() string {
	hint := ""
	switch {
	case errors.Is(e.Err, syscall.ENOSPC), errors.Is(e.Err, syscall.EDQUOT):
		hint = ": make room or keep fewer; the checkpoints before it are as they were"
	case errors.Is(e.Err, syscall.EROFS), errors.Is(e.Err, syscall.EACCES):
		hint = ": make the directory writable or choose another"
	}
	return fmt.Sprintf("checkpoint: save of step %d to %s: %v%s", e.Step, e.Dir, e.Err, hint)
}

func (e *SaveError) Unwrap() error { return e.Err }
