package sharding

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/galley-ml/galley/internal/check/report"
	"github.com/galley-ml/galley/internal/strict"
)

// Detail is how much a check prints.
type Detail uint8

// The details.
const (
	// Quiet prints differences and counts.
	Quiet Detail = iota
	// Verbose prints every case.
	Verbose
)

// shardySection checks one section of a file of Shardy's facts.
type shardySection struct {
	name string
	// check compares one case.
	check func(c json.RawMessage) shardyVerdict
}

// shardySections returns every section, in the order of the report.
func shardySections() []shardySection {
	return []shardySection{
		{"propagation", checkPropagation},
		{"op_rules", checkOpRule},
		{"reshard_to_collectives", checkReshard},
		{"explicit_reshards", checkExplicit},
	}
}

// shardyVerdict is the result of one case.
type shardyVerdict struct {
	id string
	// apart is why the case does not apply to Galley: an op that does not exist, or an answer that is better
	// than the expected one. It is empty for cases that count.
	apart string
	// differs is how the answer differs; empty if it agrees.
	differs string
}

// Shardy compares sharding inference with facts extracted from Shardy's own tests: rules of ops, propagation
// through programs, and their consequences. It prints, by section, the number that agree, each case that
// differs, and what is counted apart and why.
func Shardy(w io.Writer, path string, d Detail) (*report.Report, error) {
	text, err := strict.ReadFile(path, strict.Data)
	if err != nil {
		return nil, err
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c := &shardyCheck{Report: report.New(w, d == Verbose), w: w, verbose: d == Verbose}
	for _, s := range shardySections() {
		if err := c.section(s, doc[s.name]); err != nil {
			return nil, fmt.Errorf("%s: section %s: %w", path, s.name, err)
		}
	}
	c.Last()
	return c.Report, nil
}

// shardyCheck is a report that also prints what is counted apart.
type shardyCheck struct {
	*report.Report
	w       io.Writer
	verbose bool
}

func (r *shardyCheck) section(s shardySection, text json.RawMessage) error {
	if text == nil {
		return nil
	}
	var cases []json.RawMessage
	if err := json.Unmarshal(text, &cases); err != nil {
		return err
	}
	passed, failed := r.Passed(), r.Failed()
	var apart shardyTally
	for _, c := range cases {
		v := s.check(c)
		switch {
		case v.apart != "":
			apart.add(v.apart)
			if r.verbose {
				fmt.Fprintf(r.w, "apart %s: %s\n", v.id, v.apart)
			}
		case v.differs != "":
			r.Add(v.id, []string{v.differs}, "")
		default:
			r.Add(v.id, nil, "")
		}
	}
	agree, differ := r.Passed()-passed, r.Failed()-failed
	fmt.Fprintf(r.w, "%s: %d agree, %d differ, %d apart\n", s.name, agree, differ, len(cases)-agree-differ)
	for i, reason := range apart.reasons {
		fmt.Fprintf(r.w, "  %3d apart: %s\n", apart.counts[i], reason)
	}
	return nil
}

// shardyTally counts reasons in the order of their first appearance.
type shardyTally struct {
	reasons []string
	counts  []int
}

func (t *shardyTally) add(reason string) {
	for i, r := range t.reasons {
		if r == reason {
			t.counts[i]++
			return
		}
	}
	t.reasons, t.counts = append(t.reasons, reason), append(t.counts, 1)
}
