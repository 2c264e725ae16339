package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/elastic/worker"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/search"
	"github.com/galley-ml/galley/strategy"
)

// planReport holds what galley plan prints.
type planReport struct {
	workload plan.Workload
	cluster  *cluster.Cluster
	answer   *search.Answer
	took     time.Duration
	explain  bool
	asked    []whatIf
	// calibration holds the prices of the estimates.
	calibration plan.Calibration
}

// whatIf is a --what-if question and the best plan that it allows; nil if none fits.
type whatIf struct {
	text string
	plan *search.Plan
	why  string
}

// whatIf searches again with the pinned settings of a question.
func (r *planReport) whatIf(c search.Config, text string) error {
	pin, err := search.ParsePin(text)
	if err != nil {
		return fmt.Errorf("--what-if: %w", err)
	}
	c.Pin, c.Top = pin, 1
	a, err := search.Find(c, r.calibration)
	if err != nil {
		return fmt.Errorf("--what-if: %w", err)
	}
	if a.Misfit != nil {
		r.asked = append(r.asked, whatIf{text: text, why: strings.TrimPrefix(a.Misfit.Error(), "plan: ")})
		return nil
	}
	p := a.Plans[0]
	r.asked = append(r.asked, whatIf{text, &p, search.Why(r.answer.Plans[0], p)})
	return nil
}

func (r *planReport) write(w io.Writer) error {
	m := r.workload.Model
	fmt.Fprintf(w, "%s: %s parameters, %s of %d tokens in a step\n", m.Name, manyNumbers(m.Params()),
		plural(r.workload.Batch, "sequence"), r.workload.Seq)
	fmt.Fprintf(w, "on %s: %s\n\n", summary(r.cluster), plural(r.cluster.Size(), "device"))
	r.table(w)
	r.reasons(w)
	r.mapped(w)
	plans := r.answer.Plans[:1]
	if r.explain {
		plans = r.answer.Plans
	}
	for i, p := range plans {
		if r.explain {
			fmt.Fprintf(w, "\nplan %d: %s\n", i+1, p.Strategy.Line())
			writeTime(w, p.Estimate)
		}
		writeMemory(w, p.Estimate)
		fmt.Fprintf(w, "  an elastic run keeps up to %.1f GB of snapshots in the memory of a host\n",
			snapshotBytes(m.Params(), clusterHosts(r.cluster), p.Strategy)/1e9)
		if r.explain {
			writeStages(w, p)
		}
	}
	for _, q := range r.asked {
		fmt.Fprintf(w, "\nwhat if %s:\n", q.text)
		if q.plan != nil {
			fmt.Fprintf(w, "  %s: %s\n", interval(q.plan.Estimate), q.plan.Strategy.Line())
		}
		fmt.Fprintf(w, "  %s\n", q.why)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.proof())
	return err
}

// table prints one row for each plan.
func (r *planReport) table(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t,
		"PLAN\tDP\tTP\tCP\tEP\tPP\tSCHEDULE\tMICRO\tZERO\tRELIEF\tSTEP\tMFU\tMEMORY\tEXPOSED\tBUBBLE")
	for i, p := range r.answer.Plans {
		s, e := p.Strategy, p.Estimate
		fmt.Fprintf(
			t,
			"%d\t%d\t%s\t%d\t%d\t%d\t%s\t%d\t%s\t%s\t%s\t%.1f%%\t%.1f GB\t%.1f%%\t%.1f%%\n",
			i+1,
			one(s.DP),
			tensor(s),
			one(s.CP),
			one(s.EP),
			one(s.PP),
			schedule(
				s,
			),
			one(s.MicroBatch),
			zero(s),
			relief(s),
			interval(e),
			100*e.MFU,
			e.Memory.Total()/1e9,
			100*e.Parts.Communication()/e.Step,
			100*e.Parts.Bubble/e.Step,
		)
	}
	t.Flush()
}

// reasons prints why each plan is slower than the first.
func (r *planReport) reasons(w io.Writer) {
	if len(r.answer.Plans) > 1 {
		fmt.Fprintln(w, "\nagainst plan 1:")
	}
	for i, p := range r.answer.Plans[1:] {
		fmt.Fprintf(w, "  %d  %s\n", i+2, search.Why(r.answer.Plans[0], p))
	}
}

// mapped prints where the ranks run on a cluster of several kinds of devices.
func (r *planReport) mapped(w io.Writer) {
	m := r.answer.Mapping
	if m == nil {
		return
	}
	fmt.Fprintf(
		w,
		"\nranks are mapped to devices: %s of a step on the links and the slowest device, in the order of "+
			"devices %s\n",
		search.Seconds(m.Seconds),
		search.Seconds(m.Identity),
	)
	if r.answer.Cluster != r.cluster {
		fmt.Fprintf(w, "hosts in the order of stages: %s\n", summary(r.answer.Cluster))
	}
	if n := r.answer.Idle; n > 0 {
		fmt.Fprintf(w, "%d devices stay idle: with them a step would take longer\n", n)
	}
}

// proof returns, as text, how close to the optimum the first plan is proved to be.
func (r *planReport) proof() string {
	a := r.answer
	what := fmt.Sprintf("%d divisions of the devices, %d looked into, %d strategies priced in %s", a.Cells,
		a.Visited, a.Priced, r.took.Round(time.Millisecond))
	if a.Gap() > 1e-9 {
		return fmt.Sprintf("plan 1 is at most %.1f%% from the best under the cost model: %s", 100*a.Gap(), what)
	}
	return "plan 1 is the best under the cost model: " + what
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// summary returns a cluster in one line, shortened if one line cannot describe it.
func summary(c *cluster.Cluster) string {
	text := c.String()
	if !strings.Contains(text, "\n") {
		return text
	}
	var parts []string
	for _, g := range c.Groups {
		parts = append(parts, fmt.Sprintf("%dx%d %s", g.Hosts, g.Devices, g.Device.Name))
	}
	if c.Name != "" {
		return c.Name + ", " + strings.Join(parts, " + ")
	}
	return strings.Join(parts, " + ")
}

func one(n int) int { return max(1, n) }

func tensor(s strategy.Strategy) string {
	if s.Sequence {
		return fmt.Sprintf("%d+sp", one(s.TP))
	}
	return fmt.Sprint(one(s.TP))
}

func schedule(s strategy.Strategy) string {
	class := s.Class()
	switch {
	case one(s.PP) == 1:
		return "-"
	case class.Chunks == 0 && one(s.VPP) > 1:
		return fmt.Sprintf("%s×%d", class.Name, s.VPP)
	}
	return class.Name
}

func zero(s strategy.Strategy) string {
	if s.Zero > 0 && s.Shard > 0 {
		return fmt.Sprintf("%d of %d", s.Zero, s.Shard)
	}
	return fmt.Sprint(s.Zero)
}

// relief returns the ways in which a strategy saves memory.
func relief(s strategy.Strategy) string {
	var words []string
	if s.Recompute.Mode() != strategy.None {
		words = append(words, "recompute "+string(s.Recompute))
	}
	if s.Offload.Optimizer > 0 {
		words = append(words, fmt.Sprintf("offload %g%% optimizer", 100*s.Offload.Optimizer))
	}
	if s.Offload.Activations > 0 {
		words = append(words, fmt.Sprintf("offload %g%% activations", 100*s.Offload.Activations))
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ", ")
}

// interval returns the time of a step with its uncertainty.
func interval(e plan.Estimate) string {
	return fmt.Sprintf("%s ±%.0f%%", search.Seconds(e.Step), 50*(e.High-e.Low)/e.Step)
}

func writeTime(w io.Writer, e plan.Estimate) {
	fmt.Fprintf(w, "  time %s:", search.Seconds(e.Step))
	for _, p := range search.TimeParts(e.Parts) {
		if p.Value > 0 {
			fmt.Fprintf(w, " %s %s,", p.Name, search.Seconds(p.Value))
		}
	}
	fmt.Fprintf(w, " between %s and %s at calibration level %d\n", search.Seconds(e.Low), search.Seconds(e.High),
		e.Level)
}

func writeMemory(w io.Writer, e plan.Estimate) {
	fmt.Fprintf(w, "\n  memory of the fullest device %.1f GB:", e.Memory.Total()/1e9)
	var words []string
	for _, p := range search.MemoryParts(e.Memory) {
		if p.Value > 0 {
			words = append(words, fmt.Sprintf("%s %.1f", p.Name, p.Value/1e9))
		}
	}
	fmt.Fprintf(w, " %s\n", strings.Join(words, ", "))
}

// hostShape describes the hosts, for the memory of an elastic run's snapshots.
type hostShape struct {
	hosts, all int // all is the devices of all hosts
	devices    int // of the largest host
}

// clusterHosts returns the shape of a cluster's hosts.
func clusterHosts(c *cluster.Cluster) hostShape {
	h := hostShape{hosts: c.NumHosts(), all: c.Size()}
	for _, g := range c.Groups {
		h.devices = max(h.devices, g.Devices)
	}
	return h
}

// snapshotBytes returns the largest memory of an elastic run's snapshots on a host: worker.Slots times its
// part of the f32 parameters and Adam's two slots, and a neighbour's part if no other host holds a replica.
func snapshotBytes(params float64, h hostShape, s strategy.Strategy) float64 {
	share := func(parts int) float64 {
		own := min(1, float64(h.devices)/float64(parts))
		if h.hosts > 1 && parts > h.all/2 {
			return 2 * own // there is no replica: a neighbour keeps a copy
		}
		return own
	}
	shards := max(1, s.TP) * max(1, s.PP)
	group := max(1, s.DP) * max(1, s.CP)
	if s.Shard > 0 {
		group = s.Shard
	}
	weights, slots := shards, shards
	if s.Zero > 0 {
		slots *= group
	}
	if s.Zero == 3 {
		weights *= group
	}
	return worker.Slots * params * (4*share(weights) + 8*share(slots))
}

// writeStages prints one row for each pipeline rank; equal ranks share a row.
func writeStages(w io.Writer, p search.Plan) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  STAGES\tLAYERS\tFORWARD\tBACKWARD\tIN FLIGHT\tMEMORY\tOF")
	list := p.Estimate.Stages
	for i := 0; i < len(list); {
		j := i + 1
		for j < len(list) && list[j] == list[i] {
			j++
		}
		name := fmt.Sprint(i)
		if j > i+1 {
			name = fmt.Sprintf("%d-%d", i, j-1)
		}
		st := list[i]
		fmt.Fprintf(t, "  %s\t%d\t%s\t%s\t%.4g\t%.1f GB\t%.1f GB\n", name, st.Layers, search.Seconds(st.Forward),
			search.Seconds(st.Backward), st.InFlight, st.Memory.Total()/1e9, st.Limit/1e9)
		i = j
	}
	t.Flush()
}

// manyNumbers returns a large number in words: 8.03 billion, 124.4 million.
func manyNumbers(n float64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.4g billion", n/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.4g million", n/1e6)
	}
	return fmt.Sprintf("%.0f", n)
}
