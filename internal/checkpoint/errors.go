package checkpoint

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// CorruptError reports a checkpoint that cannot be used.
type CorruptError struct {
	// Path is the checkpoint's directory.
	Path string
	// File is the bad file in it; empty if it is not a single one.
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

// UnreadableError reports a checkpoint that the system does not let us read at the moment: no permission, no
// descriptors left, a failing disk. It may be a good one, so nothing older replaces it, and nothing is
// removed.
type UnreadableError struct {
	// Path is the checkpoint's directory, File the file in it.
	Path, File string
	Err        error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("checkpoint: %s: %s: cannot be read: %v: mend that, or move the checkpoint away",
		e.Path, e.File, e.Err)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// badFile returns why a file of a checkpoint cannot be used, distinguishing unreadable from corrupt ones.
func badFile(path, file string, err error) error {
	errno, ok := errors.AsType[syscall.Errno](err)
	switch {
	case !ok, errno == syscall.ENOENT, errno == syscall.ENOTDIR, errno == syscall.EISDIR:
		return &CorruptError{path, file, err}
	}
	return &UnreadableError{path, file, err}
}

// NotFiniteError reports a state with a NaN or an infinite number.
type NotFiniteError struct {
	Step   int64
	Tensor string
}

func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("checkpoint: step %d: %s has numbers that are not finite: training diverged: it is "+
		"not saved", e.Step, e.Tensor)
}

// NoneError reports that a directory has no good checkpoint, or not the requested one. Without Skipped
// nothing was ever saved there, and a fresh start is right; with it a run's work is at stake.
type NoneError struct {
	Dir string
	// What is the requested checkpoint: "step 12"; empty for any.
	What string
	// Skipped holds the bad ones, newest first.
	Skipped []*CorruptError
}

func (e *NoneError) Error() string {
	what := e.What
	if what == "" {
		what = "good checkpoint"
	}
	if len(e.Skipped) == 0 {
		return fmt.Sprintf("checkpoint: %s: no %s: start without one, or give the directory of a run that saved "+
			"some", e.Dir, what)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "checkpoint: %s: no %s: %d bad", e.Dir, what, len(e.Skipped))
	for _, s := range e.Skipped {
		fmt.Fprintf(&b, "\n\t%v", s)
	}
	return b.String()
}

// SaveError reports a checkpoint that could not be written. Earlier ones are unchanged.
type SaveError struct {
	Step int64
	Dir  string
	Err  error
	// Saved is set if the checkpoint exists, and only the ones that it supersedes could not be removed.
	Saved bool
}

func (e *SaveError) Error() string {
	hint := ""
	switch {
	case errors.Is(e.Err, syscall.ENOSPC), errors.Is(e.Err, syscall.EDQUOT):
		hint = ": make room or keep fewer; the checkpoints before it are as they were"
	case errors.Is(e.Err, syscall.EROFS), errors.Is(e.Err, syscall.EACCES):
		hint = ": make the directory writable or choose another"
	}
	what := "save of step %d to %s"
	if e.Saved {
		what = "step %d is saved to %s, but older ones cannot be removed"
	}
	return fmt.Sprintf("checkpoint: "+what+": %v%s", e.Step, e.Dir, e.Err, hint)
}

func (e *SaveError) Unwrap() error { return e.Err }
