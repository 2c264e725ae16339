package check

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/galley-ml/galley/internal/plan"
)

// RunsConfig says what to print.
type RunsConfig struct {
	// Verbose prints every row.
	Verbose bool
	// Calibration is the level-1 curves to start from; nil is the published micro-benchmarks.
	Calibration *plan.Calibration
}

// Runs predicts the published runs of a file and compares. Constants that are fitted to whole runs never see the source that they
// are reported on.
func Runs(w io.Writer, path string, c RunsConfig) (*Report, error) {
	rows, err := readRuns(path)
	if err != nil {
		return nil, err
	}
	cal := plan.Published()
	if c.Calibration != nil {
		cal = *c.Calibration
	}
	t := &runTable{w: w, cal: cal, verbose: c.Verbose}
	t.read(rows)
	t.print()
	r := &Report{w: w, passed: t.used, verbose: c.Verbose}
	fmt.Fprintf(w, "%d rows predicted, %d not used\n", t.used, len(rows)-t.used)
	return r, nil
}

// runTable is the rows by source.
type runTable struct {
	w       io.Writer
	cal     plan.Calibration
	verbose bool
	sources []*runSource
	obs     []runObservation
	used    int
}

// runSource is the rows of one source.
type runSource struct {
	name   string
	rows   int
	cases  []*runCase
	unused []unusedRows
	// level1 and held are the scores with published curves only and with constants of other sources.
	level1, held runScore
	fitted       fitted
}

type unusedRows struct {
	why string
	n   int
}

// fitted is what constants were fitted to.
type fitted struct {
	constants plan.Constants
	spread    float64
	rows      int
	from      string
}

func (t *runTable) source(name string) *runSource {
	for _, s := range t.sources {
		if s.name == name {
			return s
		}
	}
	s := &runSource{name: name}
	t.sources = append(t.sources, s)
	return s
}

// read turns rows into cases, estimates them with the curves alone, and then with constants fitted to other sources.
func (t *runTable) read(rows []runRow) {
	for i := range rows {
		s := t.source(rows[i].origin())
		s.rows++
		c, err := newRunCase(&rows[i])
		if err == nil {
			err = c.estimate(t.cal)
		}
		if err != nil {
			s.skip(err.Error())
			continue
		}
		s.cases = append(s.cases, c)
		t.used++
	}
	for _, s := range t.sources {
		s.level1 = score(s.cases)
	}
	t.obs = t.observations()
	for i, s := range t.sources {
		t.hold(i, s, t.obs)
	}
}

func (s *runSource) skip(why string) {
	for i := range s.unused {
		if s.unused[i].why == why {
			s.unused[i].n++
			return
		}
	}
	s.unused = append(s.unused, unusedRows{why, 1})
}

func (c *runCase) estimate(cal plan.Calibration) error {
	e, err := plan.NewEstimator(c.workload, c.cluster, cal)
	if err != nil {
		return err
	}
	c.got, err = e.Estimate(c.strategy)
	return err
}

// runObservation is a row that constants can be fitted to.
type runObservation struct {
	source int
	key    fitKey
	plan.Observation
}

// fitKey is what rows should share with those that their constants come from.
type fitKey struct {
	device string // A100, H100: the first word of the name
	style  string // classic, modern, sharded
	// measured says that micro-benchmarks of this very device are known.
	measured bool
	// ceiling says that at least the best rate of its products has been measured, megatron that the framework is one.
	ceiling, megatron bool
}

func (c *runCase) fitKey() fitKey {
	device, _, _ := strings.Cut(c.row.Cluster.GPU, "-")
	s := &c.workload.Software
	style := "modern"
	switch {
	case s.Unfused:
		style = "classic"
	case c.strategy.Zero == 3:
		style = "sharded"
	}
	d := &c.cluster.Groups[0].Device
	rate, _ := d.Rate("fp16")
	return fitKey{device, style, plan.Measured(d.Name), rate.Measured > 0, strings.Contains(strings.ToLower(c.row.Framework), "megatron")}
}

func (t *runTable) observations() []runObservation {
	var out []runObservation
	for i, s := range t.sources {
		for _, c := range s.cases {
			if c.step > 0 {
				o := plan.Observation{Parts: c.got.Parts, Measured: c.step, Layers: c.layerRuns(), Weight: 1 / math.Sqrt(float64(len(s.cases)))}
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

// leastSpread is the narrowest interval that is promised: published runs of one configuration differ by up to 9%.
const leastSpread = 0.09

// hold estimates a source again, with constants of the nearest rows of other sources: the same device and style, else the same
// style, else all.
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

// neighbours are the rows whose constants may serve, nearest first: the same device and style, the same device, then rows on other
// devices. Where a device's own micro-benchmarks are known they tell more than runs on devices that have none.
func neighbours(k fitKey) []func(o *runObservation) bool {
	near := []func(o *runObservation) bool{
		func(o *runObservation) bool { return o.key == k },
		func(o *runObservation) bool { return o.key.device == k.device },
	}
	if k.measured {
		return append(near, func(o *runObservation) bool { return o.key.megatron && o.key.ceiling })
	}
	return append(near, func(o *runObservation) bool { return o.key.style == k.style }, func(*runObservation) bool { return true })
}

// stored is the constants that are kept for the device, where the source is none of those that they were fitted to.
func stored(c *runCase) fitted {
	f, ok := plan.StoredFit(c.cluster.Groups[0].Device.Name, c.workload.Software, c.origin)
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

func (t *runTable) print() {
	for _, s := range t.sources {
		t.printSource(s)
	}
	t.summary()
}

func (t *runTable) printSource(s *runSource) {
	fmt.Fprintf(t.w, "%s: %d of %d rows used\n", s.name, len(s.cases), s.rows)
	for _, u := range s.unused {
		fmt.Fprintf(t.w, "  %d not used: %s\n", u.n, u.why)
	}
	if a := assumptions(s.cases); a != "" {
		fmt.Fprintf(t.w, "  assumed: %s\n", a)
	}
	if !t.verbose {
		return
	}
	for _, c := range s.cases {
		p := &c.got.Parts
		fmt.Fprintf(t.w, "  %-58s %9.4f s, predicted %9.4f (%+.1f%%)  compute %.0f%% again %.0f%% tp %.0f%% cp %.0f%% ep %.0f%% pp %.0f%% dp %.0f%% bubble %.0f%% update %.0f%%",
			c.row.ID, c.step, c.got.Step, 100*(c.got.Step/c.step-1), pc(p.Compute, p), pc(p.Recompute, p), pc(p.TP, p), pc(p.CP, p), pc(p.EP, p), pc(p.PP, p), pc(p.DP, p), pc(p.Bubble, p), pc(p.Optimizer, p))
		if c.memory > 0 {
			m := &c.got.Memory
			fmt.Fprintf(t.w, "  memory %.1f GiB, predicted %.1f (w %.1f g %.1f o %.1f a %.1f l %.1f b %.1f)", c.memory/(1<<30), c.predictedMemory()/(1<<30),
				m.Weights/(1<<30), m.Gradients/(1<<30), m.Optimizer/(1<<30), m.Activations/(1<<30), m.Logits/(1<<30), m.Buffers/(1<<30))
		}
		fmt.Fprintln(t.w)
	}
}

func pc(x float64, p *plan.Parts) float64 { return 100 * x / p.Sum() }

// assumptions counts what rows left open.
func assumptions(cases []*runCase) string {
	var words []string
	var counts []int
	for _, c := range cases {
		for _, a := range c.assumed {
			i := slices.Index(words, a)
			if i < 0 {
				i = len(words)
				words, counts = append(words, a), append(counts, 0)
			}
			counts[i]++
		}
	}
	for i := range words {
		words[i] = fmt.Sprintf("%s (%d rows)", words[i], counts[i])
	}
	return strings.Join(words, ", ")
}

// summary is the table: each source with constants of other sources, then what pooling gives.
func (t *runTable) summary() {
	w := tabwriter.NewWriter(t.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "source\trows\tMAPE\tmedian\tmax\tbias\tin interval\ttau\tregret\tworst\tmemory\tOOM\tlevel\tlevel 1\tconstants from\t")
	var all, mega []*runCase
	for _, s := range t.sources {
		if len(s.cases) == 0 {
			continue
		}
		all = append(all, s.cases...)
		for _, c := range s.cases {
			if c.megatron() {
				mega = append(mega, c)
			}
		}
		level := "1"
		if s.fitted.rows > 0 {
			level = fmt.Sprintf("2 (×%.2f, ×%.2f, %.1f ms)", s.fitted.constants.Compute, s.fitted.constants.Communication, 1e3*s.fitted.constants.Layer)
		}
		line(w, s.name, s.held, level, percent(s.level1.mape, s.level1.n), s.fitted.from)
	}
	line(w, "Megatron-style A100/H100, source left out", score(mega), "2", "", "")
	line(w, "all, source left out", score(all), "2", "", "")
	t.pool(t.obs)
	line(w, "all, in sample", score(all), "2", "", "itself: no measure of accuracy")
	w.Flush()
}

// pool estimates all rows with constants that are fitted to all rows of the same device and style, themselves included.
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
					fmt.Fprintf(t.w, "pooled %s %s: compute ×%.3f, communication ×%.3f, a layer %.2f ms, ±%.0f%%, %d rows of %s\n",
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

// megatron says whether a row is of a Megatron-style source on A100 or H100.
func (c *runCase) megatron() bool {
	f := strings.ToLower(c.row.Framework)
	k := c.fitKey()
	return (k.device == "A100" || k.device == "H100") && c.strategy.Zero < 3 && (strings.Contains(f, "megatron") || strings.Contains(f, "nemo"))
}

func line(w io.Writer, name string, s runScore, level, base, from string) {
	tau, reg, worst := "-", "-", "-"
	if s.groups > 0 {
		tau, reg, worst = fmt.Sprintf("%.2f", s.tau()), percent(s.regret, 1), percent(s.worst, 1)
	}
	inside := "-"
	if s.n > 0 {
		inside = fmt.Sprintf("%d%%", int(math.Round(100*float64(s.held)/float64(s.n))))
	}
	memory := "-"
	if s.memN > 0 {
		memory = fmt.Sprintf("%s of %d", percent(s.memMAPE, 1), s.memN)
	}
	oom := "-"
	if n := s.oom[0][0] + s.oom[0][1] + s.oom[1][0] + s.oom[1][1]; n > 0 {
		oom = fmt.Sprintf("%d of %d right (%d of %d failures)", s.oom[0][0]+s.oom[1][1], n, s.oom[1][1], s.oom[1][0]+s.oom[1][1])
	}
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, s.n, percent(s.mape, s.n), percent(s.median, s.n), percent(s.max, s.n),
		signed(s.bias, s.n), inside, tau, reg, worst, memory, oom, level, base, from)
}

func percent(x float64, n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*x)
}

func signed(x float64, n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.1f%%", 100*x)
}
