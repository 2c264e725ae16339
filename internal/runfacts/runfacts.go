// Package runfacts is what makes a run what it is, such as its optimizer and its batch size, as texts:
// checkpoints keep them, and a run compares them with its own before it continues.
package runfacts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/optim"
)

// prefix is what facts are called among a checkpoint's scalars.
const prefix = "run."

// allChanged stands for every fact.
const allChanged = "all"

// Run is what a trainer knows of its run.
type Run struct {
	Optimizer optim.Optimizer
	Schedule  optim.Schedule
	ClipNorm  float64
	// Seed is left out where it is 0.
	Seed uint64
}

// Of returns the facts that were given, the first of each name, and those of the run.
func Of(given []data.Fact, r Run) []data.Fact {
	list := slices.Concat(given, []data.Fact{{Name: "optimizer", Value: describe(r.Optimizer)},
		{Name: "schedule", Value: describeSchedule(r.Schedule)}, {Name: "clip", Value: describe(r.ClipNorm)}})
	if r.Seed != 0 {
		list = append(list, data.Fact{Name: "seed", Value: strconv.FormatUint(r.Seed, 10)})
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(f data.Fact) bool {
		again := seen[f.Name] || f.Value == ""
		seen[f.Name] = true
		return again
	})
}

// describe returns a value as text that does not depend on where it is in memory; empty where it has
// none.
func describe(x any) string {
	text, err := json.Marshal(x)
	if err != nil {
		return ""
	}
	if s := string(text); s[0] != '{' {
		return s
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", x), "*") + string(text)
}

// describeSchedule returns a schedule as text: a few of its rates tell where its fields do not.
func describeSchedule(s optim.Schedule) string {
	text := describe(s)
	if text == "" || strings.HasSuffix(text, "{}") {
		text = fmt.Sprintf("%T", s)
		for step := 0; step <= 1_000_000; step = max(1, step*10) {
			text += fmt.Sprintf(" %.4g", s.At(step))
		}
	}
	return text
}

// Scalars returns the facts as scalars of a checkpoint.
func Scalars(facts []data.Fact) []checkpoint.Scalar {
	var list []checkpoint.Scalar
	for _, f := range facts {
		list = append(list, checkpoint.Text(prefix+f.Name, f.Value))
	}
	return list
}

// Changes returns the facts in which a checkpoint differs. One that either side does not know is no
// difference.
func Changes(facts []data.Fact, r *checkpoint.Reader) []fit.Difference {
	var list []fit.Difference
	for _, f := range facts {
		if saved, err := r.Meta().Text(prefix + f.Name); err == nil && saved != f.Value {
			list = append(list, fit.Difference{Name: f.Name, Saved: saved, Given: f.Value})
		}
	}
	return list
}

// Same returns an error where a checkpoint is of another run, but for what is known to have changed.
func Same(facts []data.Fact, r *checkpoint.Reader, changed []string) error {
	var names []string
	for _, f := range facts {
		names = append(names, f.Name)
	}
	for _, c := range changed {
		if c != allChanged && !slices.Contains(names, c) {
			return fmt.Errorf("resume: changed: no fact %q: want some of %s, or %s", c, strings.Join(names, ", "),
				allChanged)
		}
	}
	diff := slices.DeleteFunc(Changes(facts, r), func(d fit.Difference) bool {
		return slices.Contains(changed, d.Name) || slices.Contains(changed, allChanged)
	})
	if len(diff) > 0 {
		return &fit.OtherRunError{From: r.Path(), Differences: diff}
	}
	return nil
}
