package dryrun

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/internal/search"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/strategy"
)

// FindConfig says what is searched, and of which plans tapes are built.
type FindConfig struct {
	search.Config
	Calibration plan.Calibration
	// Model is what is trained, where it is more than the workload's shape.
	Model models.Config
	// Most is up to how many layers times devices tapes are built; below 0 none are.
	Most int
	// Tapes has them built in any case: that there are none is an error.
	Tapes bool
}

// Found is what a search found with its best plan as a file, which says what each device takes where its
// tapes were built.
type Found struct {
	*search.Answer
	File *planfile.File
	// Left is what was faster, and takes more memory in Galley's tapes than the devices have, each with what it
	// takes.
	Left []string
}

// mostLeft is how many plans are left out before a search is given up.
const mostLeft = 32

// Find searches like search.Find, and builds the tapes of the best plan. The search goes by an estimate of
// memory; where the tapes take more than a device has, that plan is left out and the next best is tried.
func Find(c FindConfig) (*Found, error) {
	out := &Found{}
	var lines []string
	allow := c.Allow
	c.Allow = func(s strategy.Strategy) bool {
		return (allow == nil || allow(s)) && !slices.Contains(lines, s.Line())
	}
	for {
		a, err := search.Find(c.Config, c.Calibration)
		if err != nil {
			return nil, err
		}
		out.Answer = a
		switch {
		case a.Misfit != nil && len(lines) > 0, len(lines) == mostLeft:
			return nil, fmt.Errorf("plan: nothing fits: of %d plans that seemed to, each takes more in its tapes; "+
				"the last: %s", len(lines), out.Left[len(lines)-1])
		case a.Misfit != nil:
			return out, nil
		}
		out.File = fileOf(c.Config, a)
		over, err := c.measure(out.File)
		if err != nil || over == "" {
			return out, err
		}
		line := a.Plans[0].Strategy.Line()
		lines, out.Left = append(lines, line), append(out.Left, line+": "+over)
	}
}

// measure writes what each device takes into the file of a plan, by its tapes, and says which of them takes
// too much. A model that no family of ours has is planned for others.
func (c *FindConfig) measure(f *planfile.File) (over string, err error) {
	if !c.Tapes && f.Workload.Model.Layers*f.Strategy.Devices() > c.Most {
		return "", nil
	}
	run, err := File(f, c.Model)
	if err != nil {
		if c.Tapes {
			return "", fmt.Errorf("--tapes: %w", err)
		}
		return "", nil
	}
	p, err := Plan(run)
	if err != nil {
		return "", fmt.Errorf("tapes of the plan: %w", err)
	}
	f.Predicted.Devices = Memory(p)
	return Over(f)
}

// fileOf returns the file of the best plan.
func fileOf(c search.Config, a *search.Answer) *planfile.File {
	f := planfile.New(c.Workload, c.Cluster, a.Plans[0].Strategy, a.Plans[0].Estimate)
	if a.Cluster != c.Cluster {
		f.Layout = a.Cluster.String()
	}
	if a.Mapping != nil && !slices.IsSorted(a.Mapping.Devices) {
		f.Mapping = a.Mapping.Devices
	}
	return f
}
