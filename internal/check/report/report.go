// Package report counts the cases of a check and prints those that fail.
package report

import (
	"fmt"
	"io"
)

// Report counts cases and prints those that fail.
type Report struct {
	w              io.Writer
	passed, failed int
	verbose        bool
}

// New returns a report that prints to w: the cases that fail or, if verbose, all.
func New(w io.Writer, verbose bool) *Report { return &Report{w: w, verbose: verbose} }

// Counted returns a report of cases that were counted and printed before.
func Counted(w io.Writer, passed, failed int) *Report {
	return &Report{w: w, passed: passed, failed: failed}
}

// Passed returns the number of cases that passed.
func (r *Report) Passed() int { return r.passed }

// Failed returns the number of cases that failed.
func (r *Report) Failed() int { return r.failed }

// Add counts one case; it fails if there are faults.
func (r *Report) Add(name string, faults []string, note string) {
	if len(faults) == 0 {
		r.passed++
		if r.verbose {
			fmt.Fprintf(r.w, "ok    %s  %s\n", name, note)
		}
		return
	}
	r.failed++
	for _, f := range faults {
		fmt.Fprintf(r.w, "FAIL  %s: %s\n", name, f)
	}
}

// Note prints a remark that is not a case.
func (r *Report) Note(text string) { fmt.Fprintln(r.w, "note:", text) }

// Last prints the line that ends every check.
func (r *Report) Last() { fmt.Fprintf(r.w, "%d passed, %d failed\n", r.passed, r.failed) }
