package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/fit"
)

// loggedRow is what a line of a log says of collectives.
type loggedRow struct {
	Step        int
	Event       string
	Collectives []fit.CollectiveLog
}

// loggedRows trains for three steps and reads the log.
func loggedRows(t *testing.T, launch string) (rows []loggedRow) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "run.jsonl")
	words := strings.Fields(launch + " train --steps 3 --mesh dp=2,tp=2 --zero 1 --log " + log)
	if out, err := galleyCommand(t, append(words, tinyRun...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var r loggedRow
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		rows = append(rows, r)
	}
	return rows
}

// movedBytes returns the run's collectives as the last line of a log has them, without times; and it asks
// that times are possible ones.
func movedBytes(t *testing.T, rows []loggedRow) (list []string) {
	t.Helper()
	last := rows[len(rows)-1]
	if last.Event == "" || last.Step != 3 {
		t.Errorf("the last line is %+v", last)
	}
	for _, c := range last.Collectives {
		if c.WaitSeconds <= 0 || c.Seconds < c.WaitSeconds || c.Group == "" {
			t.Errorf("got %+v", c)
		}
		list = append(list, fmt.Sprintf("%s %s %s: %d calls, %d bytes", c.Axes, c.Kind, c.Group, c.Calls, c.Bytes))
	}
	return list
}

// TestLogCollectives: the log says what collectives moved and took, row by row and of the run, and of all
// processes what one process says of all its devices.
func TestLogCollectives(t *testing.T) {
	t.Parallel()
	rows := loggedRows(t, "")
	want := movedBytes(t, rows)
	if text := strings.Join(want, "\n"); !strings.Contains(text, "dp ") || !strings.Contains(text, "tp ") {
		t.Errorf("got %s", text)
	}
	first, total := 0, 0
	for i, r := range rows[:3] {
		bytes := 0
		for _, c := range r.Collectives {
			bytes += c.Bytes
		}
		if i == 0 {
			first = bytes
		}
		if r.Step != i+1 || bytes != first || bytes == 0 {
			t.Errorf("row %d: step %d, %d bytes; the first has %d", i, r.Step, bytes, first)
		}
	}
	for _, c := range rows[len(rows)-1].Collectives {
		total += c.Bytes
	}
	if total != 3*first {
		t.Errorf("the run has %d bytes, a step %d", total, first)
	}
	needMPICH(t)
	if got := movedBytes(t, loggedRows(t, "launch -n 2 --")); !slices.Equal(got, want) {
		t.Errorf("two processes: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
