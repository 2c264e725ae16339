package fit

import (
	"errors"
	"fmt"
	"strings"
)

// Resumed describes where a run continues.
type Resumed struct {
	// From is the checkpoint's directory, Step the number of steps taken, Sample the index of the next
	// sample.
	From         string
	Step, Sample int64
	// Skipped names newer checkpoints that were incomplete or corrupt, and why.
	Skipped []error
	// Changed lists the facts that differ and were allowed to.
	Changed []Difference
	// Best is the lowest validation loss of the run so far; NaN if there was none.
	Best float64
}

// ResumeConfig selects the checkpoint to resume from. The zero value selects the newest valid one.
type ResumeConfig struct {
	// Step, if set, is the checkpoint's step.
	Step int64
	// Changed lists the names of facts that may differ from those of the checkpoint's run; "all" means every
	// fact.
	Changed []string
}

// ResumeError is returned if a fit cannot resume from its checkpoints.
type ResumeError struct{ Err error }

func (e *ResumeError) Error() string { return "fit: resume: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ResumeError) Unwrap() error { return e.Err }

// ErrNoCheckpoint is returned for a directory without checkpoints: start from scratch.
var ErrNoCheckpoint = errors.New("no checkpoint")

// Difference is a fact whose values in a checkpoint and in the resuming run differ.
type Difference struct{ Name, Saved, Given string }

// OtherRunError is returned when a checkpoint belongs to a run with different facts.
type OtherRunError struct {
	From        string
	Differences []Difference
}

func (e *OtherRunError) Error() string {
	var parts, names []string
	for _, d := range e.Differences {
		parts, names = append(parts, fmt.Sprintf("%s is %s, and was %s", d.Name, d.Given, d.Saved)),
			append(names, d.Name)
	}
	return fmt.Sprintf("checkpoint %s: it is of another run: %s: give what it had, or say that it changed: %s",
		e.From, strings.Join(parts, "; "), strings.Join(names, ","))
}
