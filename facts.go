package galley

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

// Fact is one thing that makes a run what it is, such as its batch size. Checkpoints keep the facts of their
// run; Resume refuses one of another run, unless it is told what has changed.
type Fact = data.Fact

// OtherRunError is a checkpoint of a run that is not the one that would go on from it.
type OtherRunError = fit.OtherRunError

// factPrefix is what facts are called among a checkpoint's scalars.
const factPrefix = "run."

// facts is those that the trainer was given, and its own.
func (t *Trainer) facts() []Fact {
	list := slices.Concat(t.c.Facts, t.described, []Fact{
		{Name: "optimizer", Value: describe(t.c.Optimizer)}, {Name: "schedule",
			Value: describeSchedule(t.c.Schedule)},
		{Name: "clip", Value: describe(t.c.ClipNorm)},
	})
	if t.c.Seed != 0 {
		list = append(list, Fact{Name: "seed", Value: strconv.FormatUint(t.c.Seed, 10)})
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(f Fact) bool {
		again := seen[f.Name] || f.Value == ""
		seen[f.Name] = true
		return again
	})
}

// describe is a value as text that does not depend on where it lies in memory; empty where it has none.
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

// describeSchedule is a schedule as text: a few of its rates tell where its fields do not.
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

// saveFacts is the facts as scalars of a checkpoint.
func (t *Trainer) saveFacts() []checkpoint.Scalar {
	var list []checkpoint.Scalar
	for _, f := range t.facts() {
		list = append(list, checkpoint.Text(factPrefix+f.Name, f.Value))
	}
	return list
}

// changes is the facts in which a checkpoint differs. One that either side does not know is no difference.
func (t *Trainer) changes(r *checkpoint.Reader) []fit.Difference {
	var list []fit.Difference
	for _, f := range t.facts() {
		if saved, err := r.Meta().Text(factPrefix + f.Name); err == nil && saved != f.Value {
			list = append(list, fit.Difference{Name: f.Name, Saved: saved, Given: f.Value})
		}
	}
	return list
}

// sameRun is an error where a checkpoint is of another run, but for what is known to have changed.
func (t *Trainer) sameRun(r *checkpoint.Reader, changed []string) error {
	var names []string
	for _, f := range t.facts() {
		names = append(names, f.Name)
	}
	for _, c := range changed {
		if c != allChanged && !slices.Contains(names, c) {
			return fmt.Errorf("resume: changed: no fact %q: want some of %s, or %s", c, strings.Join(names,
				", "), allChanged)
		}
	}
	diff := slices.DeleteFunc(t.changes(r), func(d fit.Difference) bool {
		return slices.Contains(changed, d.Name) || slices.Contains(changed, allChanged)
	})
	if len(diff) > 0 {
		return &OtherRunError{From: r.Path(), Differences: diff}
	}
	return nil
}

// allChanged stands for every fact.
const allChanged = "all"
