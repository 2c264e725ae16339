package plan

import (
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/cluster"
)

// Fitted is constants of level 2 for a kind of device and of software, and what they were fitted to.
type Fitted struct {
	// Device is the first word of the devices' names.
	Device string
	// Unfused is whether they are of programs with unfused attention, which are those of the years to 2022.
	Unfused bool
	// Short is whether they are of products in 8 bits or less.
	Short     bool
	Constants Constants
	// Spread is half the width of the interval that held nine tenths of the runs.
	Spread float64
	// Sources name the published runs; predictions of those are no test.
	Sources []string
}

// fits are what galley check runs prints last for all published runs that are stored with the project:
// constants fitted to each kind of device, software and width of number by itself.
var fits = []Fitted{
	{"A100", true, false, Constants{1.06, 0.95, 0.2e-3}, 0.15,
		[]string{"sc21", "korthikanti", "megatron2020", "vtrain", "nemo2023"}},
	{"A100", true, false, Constants{1.06, 1.03, 0}, 0.15,
		[]string{"sc21", "korthikanti", "megatron2020", "nemo2023"}},
	{"A100", false, false, Constants{1.17, 1.03, 0}, 0.13, []string{"mosaic", "torchtitan"}},
	{"A800", false, false, Constants{1.17, 1.03, 0}, 0.2, []string{"mosaic", "torchtitan"}},
	{"H100", false, false, Constants{1.31, 1.03, 0.2e-3}, 0.18, []string{"mosaic", "torchtitan"}},
	{"H200", false, false, Constants{1.31, 1.03, 0.2e-3}, 0.29, []string{"mosaic", "torchtitan"}},
	{"H800", false, false, Constants{1.31, 1.03, 0.2e-3}, 0.3, []string{"mosaic", "torchtitan"}},
	{"H100", false, true, Constants{0.98, 1.03, 0.5e-3}, 0.3, []string{"nemo", "mbridge"}},
	{"H200", false, true, Constants{0.98, 1.03, 0.5e-3}, 0.3, []string{"nemo", "mbridge"}},
	{"H800", false, true, Constants{0.98, 1.03, 0.5e-3}, 0.3, []string{"nemo", "mbridge"}},
	{"B200", false, false, Constants{1.1, 1.03, 0.5e-3}, 0.12, []string{"simumax", "mbridge"}},
	{"B200", false, true, Constants{0.9, 0.95, 1.4e-3}, 0.46, []string{"mbridge"}},
	{"GB200", false, true, Constants{1.06, 0.88, 0.7e-3}, 0.42, []string{"mbridge"}},
	{"GB300", false, true, Constants{0.94, 0.95, 0.7e-3}, 0.39, []string{"mbridge"}},
	{"V100", true, false, Constants{1, 0.95, 0.2e-3}, 0.15, []string{"megatron2020", "bigscience"}},
	{"T4", true, false, Constants{1.31, 1.3, 1.4e-3}, 0.38, []string{"amp"}},
	{"TPU", false, false, Constants{0.92, 1.03, 0}, 0.15, []string{"maxtext"}},
}

// StoredFit is the constants of level 2 for a device and a workload, if runs of its kind on such a device are
// known from another source than the one named.
func StoredFit(device string, w Workload, except string) (Fitted, bool) {
	word, _, _ := strings.Cut(device, "-")
	best, found := Fitted{}, false
	for _, f := range fits {
		if f.Device != word || f.Short != w.Short() || slices.Contains(f.Sources, except) {
			continue
		}
		if f.Unfused == w.Software.Unfused {
			return f, true
		}
		best, found = f, true
	}
	return best, found
}

// Default is the best calibration that is known for a cluster and a workload without measuring it: published
// micro-benchmarks, with constants fitted to published runs on devices of its kind where there are any.
func Default(c *cluster.Cluster, w Workload) Calibration {
	cal := Published()
	for _, g := range c.Groups {
		f, ok := StoredFit(g.Device.Name, w, "")
		if !ok {
			cal.Spread = 0.35
			continue
		}
		// Of a mixed cluster the slower constants count: devices wait for each other.
		cal.Level = 2
		cal.Constants.Compute = max(cal.Constants.Compute, f.Constants.Compute)
		cal.Constants.Communication = max(cal.Constants.Communication, f.Constants.Communication)
		cal.Constants.Layer = max(cal.Constants.Layer, f.Constants.Layer)
		cal.Spread = max(cal.Spread, f.Spread)
	}
	return cal
}
