package runs

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/plan"
)

// runObservation is a row that constants can be fitted to.
type runObservation struct {
	source int
	key    fitKey
	plan.Observation
}

// fitKey is what rows should share with those that their constants come from.
type fitKey struct {
	device string // A100, H100: the first word of the name
	style  string // classic, modern, sharded, compiled
	short  bool   // products in 8 bits or less: how much of their peak is reached is another question
	// measured says that micro-benchmarks of this very device are known.
	measured bool
	// ceiling says that at least the best rate of its products has been measured, fabric is what joins devices,
	// megatron that the framework is one.
	ceiling  bool
	fabric   string
	megatron bool
}

func (c *runCase) fitKey() fitKey {
	device, _, _ := strings.Cut(c.row.Cluster.GPU, "-")
	f := strings.ToLower(c.row.Framework)
	style := "modern"
	switch {
	case compiledWhole(f):
		style = "compiled"
	case c.workload.Software.Unfused:
		style = "classic"
	case c.strategy.Zero == 3 && !modernMegatron(f):
		style = "sharded"
	}
	d := &c.cluster.Groups[0].Device
	rate, _ := d.Rate("fp16")
	return fitKey{device, style, c.workload.Short(), plan.Measured(d.Name), rate.Measured > 0,
		c.cluster.Groups[0].Fabric.Kind, modernMegatron(f) || strings.Contains(f, "megatron")}
}

func (t *runTable) observations() []runObservation {
	var out []runObservation
	for i, s := range t.sources {
		for _, c := range s.cases {
			if c.step > 0 {
				o := plan.Observation{Parts: c.got.Parts, Measured: c.step, Layers: c.layerRuns(),
					Weight: 1 / math.Sqrt(float64(len(s.cases)))}
				out = append(out, runObservation{i, c.fitKey(), o})
			}
		}
	}
	return out
}

// layerRuns is how many times a device runs a layer in a step.
func (c *runCase) layerRuns() float64 {
	return float64(c.strategy.Micros(c.workload.Batch)) * float64(c.workload.Model.Layers) / float64(c.strategy.PP)
}

// fitRows is how many rows it takes to fit constants.
const fitRows = 6

// leastSpread is the narrowest interval that is promised: published runs of one configuration differ by up to
// 9%.
const leastSpread = 0.09

// hold estimates a source again, with constants of the nearest rows of other sources: the same device and
// style, else the same style, else all.
func (t *runTable) hold(i int, s *runSource, obs []runObservation) {
	byKey := map[fitKey]fitted{}
	for _, c := range s.cases {
		k := c.fitKey()
		f, ok := byKey[k]
		if !ok {
			f = t.fit(i, k, obs)
			if f.rows == 0 {
				f = stored(c)
			}
			byKey[k] = f
		}
		if f.rows == 0 {
			continue
		}
		cal := t.cal
		cal.Level, cal.Constants, cal.Spread = 2, f.constants, f.spread
		if err := c.estimate(cal); err != nil {
			s.skip(err.Error())
		}
		s.fitted = f
	}
	s.held = score(s.cases)
}

// neighbours are the rows whose constants may serve, nearest first: the same device and style, the same
// device with attention fused or not as here, the same device, then the same style on other devices; rows
// that share neither say nothing. Where a device's own micro-benchmarks are known they tell more than runs on
// devices that have none.
func neighbours(k fitKey) []func(o *runObservation) bool {
	near := []func(o *runObservation) bool{
		func(o *runObservation) bool { return o.key == k },
		func(o *runObservation) bool {
			return o.key.device == k.device && o.key.short == k.short &&
				(o.key.style == "classic") == (k.style == "classic")
		},
		func(o *runObservation) bool { return o.key.device == k.device && o.key.short == k.short },
	}
	if k.measured {
		return append(near, func(o *runObservation) bool {
			return o.key.megatron && o.key.ceiling && o.key.fabric == k.fabric && o.key.short == k.short
		})
	}
	return append(near, func(o *runObservation) bool { return o.key.style == k.style && o.key.short == k.short })
}

// stored is the constants that are kept for the device, where the source is none of those that they were
// fitted to.
func stored(c *runCase) fitted {
	f, ok := plan.StoredFit(c.cluster.Groups[0].Device.Name, c.workload, c.origin)
	if !ok {
		return fitted{}
	}
	return fitted{f.Constants, f.Spread, 1, "stored: " + strings.Join(f.Sources, ", ")}
}

func (t *runTable) fit(own int, k fitKey, obs []runObservation) fitted {
	for _, near := range neighbours(k) {
		var from []plan.Observation
		var names []string
		for j := range obs {
			o := &obs[j]
			if o.source == own || !near(o) {
				continue
			}
			from = append(from, o.Observation)
			if n := t.sources[o.source].name; !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
		if len(from) >= fitRows {
			k := plan.Fit(from)
			return fitted{k, max(leastSpread, plan.FitSpread(from, k)), len(from), strings.Join(names, ", ")}
		}
	}
	return fitted{}
}

// pool estimates all rows with constants that are fitted to all rows of the same device and style, themselves
// included.
func (t *runTable) pool(obs []runObservation) {
	byKey := map[fitKey]fitted{}
	for _, s := range t.sources {
		for _, c := range s.cases {
			k := c.fitKey()
			f, ok := byKey[k]
			if !ok {
				f = t.fit(-1, k, obs)
				byKey[k] = f
				if t.verbose {
					fmt.Fprintf(t.w,
						"pooled %s %s: compute ×%.3f, communication ×%.3f, a layer %.2f ms, ±%.0f%%, %d rows of %s\n",
						k.device, k.style, f.constants.Compute, f.constants.Communication, 1e3*f.constants.Layer, 100*f.spread, f.rows, f.from)
				}
			}
			cal := t.cal
			cal.Level, cal.Constants, cal.Spread = 2, f.constants, f.spread
			if err := c.estimate(cal); err != nil {
				panic("check: a row that was estimated before: " + err.Error())
			}
		}
	}
}
