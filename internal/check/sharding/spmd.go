package sharding

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/check/report"
	"github.com/galley-ml/galley/internal/strict"
)

// SpmdConfig is the options of Spmd.
type SpmdConfig struct {
	// Verbose prints every case, not only those that differ.
	Verbose bool
}

// Spmd compares how Galley shards ops with recorded facts about Paddle's rules: a file of cases, each an op
// with the specs of its operands (or results) and what is asserted of the others. A case counts as
//
//   - passed, if everything that it asserts holds here;
//   - better, if it does not, but our answer is legal and moves no more bytes than the recorded one;
//   - apart, with the reason, if it cannot be compared: the op does not exist here, the facts are marked as
//     wrong numbers or as ill formed, or the shapes are none that the op accepts;
//   - failed otherwise.
func Spmd(w io.Writer, file string, c SpmdConfig) (*report.Report, error) {
	data, err := strict.ReadFile(file, strict.Data)
	if err != nil {
		return nil, err
	}
	var f spmdFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	t := &spmdTable{verbose: c.Verbose, w: w, rows: map[string]*spmdRow{}}
	for _, x := range slices.Concat(f.Cases, f.CoShard) {
		t.add(x.family(), x.Op, x.ID, x.judge())
	}
	for _, x := range f.Reshard {
		t.add("reshard", x.Kind, x.ID, x.judge())
	}
	for _, x := range f.EndToEnd {
		t.add("end to end", x.Op, x.ID, x.judge())
	}
	for _, x := range f.Pipeline {
		t.add("pipeline", x.Schedule, x.ID, unsupported("pipeline schedules are not part of this check"))
	}
	return t.finish(), nil
}

// spmdFile is a file of recorded facts.
type spmdFile struct {
	Cases    []*spmdCase    `json:"cases"`
	CoShard  []*spmdCase    `json:"coshard_cases"`
	Reshard  []*reshardCase `json:"reshard_cases"`
	EndToEnd []*endToEnd    `json:"e2e_coshard_cases"`
	Pipeline []struct {
		ID       string `json:"id"`
		Schedule string `json:"schedule"`
	} `json:"pipeline_cases"`
}

// outcome is how one case ended.
type outcome int

const (
	agrees outcome = iota
	differs
	isBetter
	isUnsupported
)

// finding is the outcome of a case with an explanation.
type finding struct {
	outcome outcome
	// reason is why the case is unsupported, or why the answer is better.
	reason string
	// faults are the differences.
	faults []string
}

func unsupported(format string, args ...any) finding {
	return finding{outcome: isUnsupported, reason: fmt.Sprintf(format, args...)}
}

func fault(format string, args ...any) finding {
	return finding{outcome: differs, faults: []string{fmt.Sprintf(format, args...)}}
}

// verdictOf returns agreement if there are no faults, a difference otherwise.
func verdictOf(faults []string) finding {
	if len(faults) == 0 {
		return finding{}
	}
	return finding{outcome: differs, faults: faults}
}

// spmdTable counts findings by family and op.
type spmdTable struct {
	w       io.Writer
	verbose bool
	order   []*spmdRow
	rows    map[string]*spmdRow
	reasons []spmdReason
}

type spmdRow struct {
	family, op string
	counts     [isUnsupported + 1]int
}

// spmdReason is why cases are apart, and which.
type spmdReason struct {
	text string
	ids  []string
}

func (t *spmdTable) add(family, op, id string, f finding) {
	key := family + " " + op
	row := t.rows[key]
	if row == nil {
		row = &spmdRow{family: family, op: op}
		t.rows[key] = row
		t.order = append(t.order, row)
	}
	row.counts[f.outcome]++
	switch f.outcome {
	case agrees:
		if t.verbose {
			fmt.Fprintf(t.w, "ok      %s\n", id)
		}
	case differs:
		for _, x := range f.faults {
			fmt.Fprintf(t.w, "FAIL    %s: %s\n", id, x)
		}
	case isBetter:
		fmt.Fprintf(t.w, "better  %s: %s\n", id, f.reason)
	case isUnsupported:
		t.addReason(f.reason, id)
	}
}

func (t *spmdTable) addReason(text, id string) {
	for i := range t.reasons {
		if t.reasons[i].text == text {
			t.reasons[i].ids = append(t.reasons[i].ids, id)
			return
		}
	}
	t.reasons = append(t.reasons, spmdReason{text, []string{id}})
}

// finish prints the table, the reasons and the totals.
func (t *spmdTable) finish() *report.Report {
	slices.SortStableFunc(t.order, func(a, b *spmdRow) int {
		return strings.Compare(a.family+" "+a.op, b.family+" "+b.op)
	})
	fmt.Fprintf(t.w, "\n%-22s %-42s %6s %6s %6s %6s\n", "family", "op", "agree", "differ", "better", "apart")
	var total [isUnsupported + 1]int
	for i, row := range t.order {
		family := row.family
		if i > 0 && t.order[i-1].family == family {
			family = ""
		}
		printCounts(t.w, family, row.op, row.counts)
		for k, n := range row.counts {
			total[k] += n
		}
	}
	printCounts(t.w, "all", "", total)
	slices.SortStableFunc(t.reasons, func(a, b spmdReason) int { return len(b.ids) - len(a.ids) })
	fmt.Fprintln(t.w, "\napart, with the reason:")
	for _, r := range t.reasons {
		fmt.Fprintf(t.w, "%4d  %s: %s\n", len(r.ids), r.text, strings.Join(r.ids, " "))
	}
	fmt.Fprintf(t.w, "\n%d passed, %d failed, %d better, %d apart\n", total[agrees], total[differs],
		total[isBetter], total[isUnsupported])
	r := report.Counted(t.w, total[agrees], total[differs])
	r.Last()
	return r
}

func printCounts(w io.Writer, family, op string, n [isUnsupported + 1]int) {
	fmt.Fprintf(w, "%-22s %-42s %6d %6d %6d %6d\n", family, op, n[agrees], n[differs], n[isBetter],
		n[isUnsupported])
}
