package serve_test

import (
	"bufio"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// checkMetrics holds the text to Prometheus' rules, those of promtool check metrics among them: every sample
// once, after its help and type, counters that end in _total, buckets that grow to the count, labels that are
// quoted, and names as lintName wants them.
func checkMetrics(t *testing.T, text string) {
	t.Helper()
	kinds, last, helped, seen := map[string]string{}, map[string]float64{}, map[string]bool{}, map[string]bool{}
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		line := s.Text()
		if f := strings.Fields(line); strings.HasPrefix(line, "#") {
			if f[1] == "HELP" {
				if len(f) < 4 || helped[f[2]] {
					t.Errorf("no help, or twice: %s", line)
				}
				helped[f[2]] = true
			}
			if f[1] == "TYPE" {
				if kinds[f[2]] != "" || !helped[f[2]] {
					t.Errorf("%s: its type comes twice, or before its help", f[2])
				}
				kinds[f[2]] = f[3]
				lintName(t, f[2])
				if (f[3] == "counter") != strings.HasSuffix(f[2], "_total") {
					t.Errorf("%s is a %s", f[2], f[3])
				}
			}
			continue
		}
		name, rest, ok := strings.Cut(line, "{")
		labels, value, also := strings.Cut(rest, "} ")
		var x float64
		if _, err := fmt.Sscan(value, &x); !ok || !also || err != nil ||
			!strings.Contains(labels, `model_name="small"`) {
			t.Errorf("not a sample: %s", line)
		}
		if seen[name+labels] {
			t.Errorf("twice: %s", line)
		}
		seen[name+labels] = true
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if b, is := strings.CutSuffix(name, suffix); is && kinds[b] == "histogram" {
				base = b
			}
		}
		if kinds[base] == "" {
			t.Errorf("%s has no type", name)
		}
		if strings.HasSuffix(name, "_bucket") {
			if x < last[base] {
				t.Errorf("buckets shrink: %s", line)
			}
			last[base] = x
		}
		if strings.HasSuffix(name, "_count") && kinds[base] == "histogram" {
			if x != last[base] {
				t.Errorf("%v of %v observations are in a bucket: %s", last[base], x, line)
			}
			delete(last, base) // another model's begin anew
		}
	}
	if len(kinds) < 14 {
		t.Errorf("only %d metrics", len(kinds))
	}
}

// lintName is promtool's rules for names: base units, written out and last; small letters; neither a kind of
// metric nor a suffix that histograms have.
func lintName(t *testing.T, name string) {
	t.Helper()
	if !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(name) {
		t.Errorf("%s: want small letters", name)
	}
	words := strings.Split(name, "_")
	for _, w := range []string{"milliseconds", "microseconds", "nanoseconds", "minutes", "hours", "days",
		"kilobytes",
		"megabytes", "gigabytes", "bits", "percent", "s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "pct",
		"counter", "gauge", "histogram", "summary", "bucket", "count", "sum"} {
		if slices.Contains(words, w) {
			t.Errorf("%s: %q is no base unit, or a word that is reserved", name, w)
		}
	}
	for _, unit := range []string{"seconds", "bytes", "ratio"} {
		if i := slices.Index(words, unit); i >= 0 && i != len(words)-1 && words[len(words)-1] != "total" {
			t.Errorf("%s: want %s last", name, unit)
		}
	}
}
