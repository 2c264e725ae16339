package fit

import (
	"errors"
	"fmt"
	"strings"
)

// Resumed is where a run continues.
type Resumed struct {
	// From is the checkpoint's directory. Step is how many steps were taken, Sample the number of the next
	// sample.
	From         string
	Step, Sample int64
	// Skipped names newer checkpoints that were torn or corrupt, and why.
	Skipped []error
	// Changed is what was allowed to differ from the checkpoint's run, and does.
	Changed []Difference
	// Best is the least loss of all evaluations of the run so far; NaN where there was none.
	Best float64
}

// ResumeConfig says which checkpoint a run continues from. The zero value is the newest good one.
type ResumeConfig struct {
	// Step, if set, is that of the checkpoint.
	Step int64
	// Changed is the names of facts that may be others than those of the checkpoint's run; "all" stands for
	// every one.
	Changed []string
}

// ResumeError is why a fit could not continue from its directory of checkpoints.
type ResumeError struct{ Err error }

func (e *ResumeError) Error() string { return "fit: resume: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *ResumeError) Unwrap() error { return e.Err }

// ErrNoCheckpoint is a directory without any: a fresh start is right.
var ErrNoCheckpoint = errors.New("no checkpoint")

// Difference is a fact that is another in a checkpoint than in the run that is to continue from it.
type Difference struct{ Name, Saved, Given string }

// OtherRunError is a checkpoint of a run that is not the one that would continue from it.
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
