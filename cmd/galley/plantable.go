package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/internal/search"
)

// planReport is what galley plan prints.
type planReport struct {
	workload plan.Workload
	cluster  *cluster.Cluster
	answer   *search.Answer
	took     time.Duration
	explain  bool
	asked    []whatIf
	// calibration is what prices came from.
	calibration plan.Calibration
}

// whatIf is a question and the best plan of those that it allows; none where nothing fits.
type whatIf struct {
	text string
	plan *search.Plan
	why  string
}

// whatIf searches again with something pinned.
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
	fmt.Fprintf(w, "%s: %.4g billion parameters, %d sequences of %d tokens in a step\n", m.Name, m.Params()/1e9, r.workload.Batch, r.workload.Seq)
	fmt.Fprintf(w, "on %s: %d devices\n\n", strings.ReplaceAll(r.cluster.String(), "\n", "\n   "), r.cluster.Size())
	r.table(w)
	r.reasons(w)
	r.mapped(w)
	plans := r.answer.Plans[:1]
	if r.explain {
		plans = r.answer.Plans
	}
	for i, p := range plans {
		if r.explain {
			fmt.Fprintf(w, "\nplan %d: %s\n", i+1, p.Strategy)
			writeTime(w, p.Estimate)
		}
		writeMemory(w, p.Estimate)
		if r.explain {
			writeStages(w, p)
		}
	}
	for _, q := range r.asked {
		fmt.Fprintf(w, "\nwhat if %s:\n", q.text)
		if q.plan != nil {
			fmt.Fprintf(w, "  %s: %s\n", interval(q.plan.Estimate), q.plan.Strategy)
		}
		fmt.Fprintf(w, "  %s\n", q.why)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.proof())
	return err
}

// table is one row a plan.
func (r *planReport) table(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PLAN\tDP\tTP\tCP\tEP\tPP\tSCHEDULE\tMICRO\tZERO\tRELIEF\tSTEP\tMFU\tMEMORY\tEXPOSED\tBUBBLE")
	for i, p := range r.answer.Plans {
		s, e := p.Strategy, p.Estimate
		fmt.Fprintf(t, "%d\t%d\t%s\t%d\t%d\t%d\t%s\t%d\t%s\t%s\t%s\t%.1f%%\t%.1f GB\t%.1f%%\t%.1f%%\n", i+1, one(s.DP), tensor(s), one(s.CP), one(s.EP), one(s.PP),
			schedule(s), one(s.Micro), zero(s), relief(s), interval(e), 100*e.MFU, e.Memory.Total()/1e9, 100*e.Parts.Communication()/e.Step, 100*e.Parts.Bubble/e.Step)
	}
	t.Flush()
}

// reasons is what each plan loses to the first.
func (r *planReport) reasons(w io.Writer) {
	if len(r.answer.Plans) > 1 {
		fmt.Fprintln(w, "\nagainst plan 1:")
	}
	for i, p := range r.answer.Plans[1:] {
		fmt.Fprintf(w, "  %d  %s\n", i+2, search.Why(r.answer.Plans[0], p))
	}
}

// mapped says where ranks run on a mixed cluster.
func (r *planReport) mapped(w io.Writer) {
	m := r.answer.Mapping
	if m == nil {
		return
	}
	fmt.Fprintf(w, "\nranks are mapped to devices: %s of a step on the links and the slowest device, in the order of devices %s\n",
		search.Seconds(m.Seconds), search.Seconds(m.Identity))
	if r.answer.Cluster != r.cluster {
		fmt.Fprintf(w, "hosts in the order of stages: %s\n", r.answer.Cluster)
	}
}

// proof is how sure the first plan is.
func (r *planReport) proof() string {
	a := r.answer
	what := fmt.Sprintf("%d divisions of the devices, %d looked into, %d strategies priced in %s", a.Cells, a.Visited, a.Priced, r.took.Round(time.Millisecond))
	if a.Gap() > 1e-9 {
		return fmt.Sprintf("plan 1 is at most %.1f%% from the best under the cost model: %s", 100*a.Gap(), what)
	}
	return "plan 1 is the best under the cost model: " + what
}

func one(n int) int { return max(1, n) }

func tensor(s plan.Strategy) string {
	if s.SP {
		return fmt.Sprintf("%d+sp", one(s.TP))
	}
	return fmt.Sprint(one(s.TP))
}

func schedule(s plan.Strategy) string {
	switch {
	case one(s.PP) == 1:
		return "-"
	case one(s.VPP) > 1 && (s.Schedule == "" || s.Schedule == "interleaved"):
		return fmt.Sprintf("interleaved×%d", s.VPP)
	case s.Schedule == "":
		return "1f1b"
	}
	return s.Schedule
}

func zero(s plan.Strategy) string {
	if s.Zero > 0 && s.Shard > 0 {
		return fmt.Sprintf("%d of %d", s.Zero, s.Shard)
	}
	return fmt.Sprint(s.Zero)
}

// relief is what is given up for memory.
func relief(s plan.Strategy) string {
	var words []string
	if text, _ := s.Recompute.MarshalText(); s.Recompute.Mode != "" && s.Recompute.Mode != plan.None {
		words = append(words, "recompute "+string(text))
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

// interval is the time of a step with how far off it may be.
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
	fmt.Fprintf(w, " between %s and %s at calibration level %d\n", search.Seconds(e.Low), search.Seconds(e.High), e.Level)
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

// writeStages is a row for each rank of the pipeline; ranks that are alike are one row.
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
		fmt.Fprintf(t, "  %s\t%d\t%s\t%s\t%.4g\t%.1f GB\t%.1f GB\n", name, st.Layers, search.Seconds(st.Forward), search.Seconds(st.Backward), st.InFlight, st.Memory.Total()/1e9, st.Limit/1e9)
		i = j
	}
	t.Flush()
}

// writeComparison shows two plans side by side.
func writeComparison(w io.Writer, names [2]string, files [2]*planfile.File) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	a, b := files[0], files[1]
	row := func(name, x, y string) {
		mark := ""
		if x != y {
			mark = "differs"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", name, x, y, mark)
	}
	fmt.Fprintf(t, "\t%s\t%s\t\n", names[0], names[1])
	row("model", a.Workload.Model.Name, b.Workload.Model.Name)
	row("batch × tokens", fmt.Sprintf("%d × %d", a.Workload.Batch, a.Workload.Seq), fmt.Sprintf("%d × %d", b.Workload.Batch, b.Workload.Seq))
	row("cluster", firstLine(a.Cluster), firstLine(b.Cluster))
	row("strategy", a.Strategy.String(), b.Strategy.String())
	row("step", search.Seconds(a.Predicted.Step), search.Seconds(b.Predicted.Step))
	row("tokens/s", fmt.Sprintf("%.4g", a.Predicted.TokensPerSecond), fmt.Sprintf("%.4g", b.Predicted.TokensPerSecond))
	row("MFU", fmt.Sprintf("%.1f%%", 100*a.Predicted.MFU), fmt.Sprintf("%.1f%%", 100*b.Predicted.MFU))
	ea, eb := a.Predicted.Estimate(), b.Predicted.Estimate()
	x, y := search.TimeParts(ea.Parts), search.TimeParts(eb.Parts)
	for i := range x {
		if x[i].Value > 0 || y[i].Value > 0 {
			row("  "+x[i].Name, search.Seconds(x[i].Value), search.Seconds(y[i].Value))
		}
	}
	x, y = search.MemoryParts(ea.Memory), search.MemoryParts(eb.Memory)
	row("memory", fmt.Sprintf("%.1f GB", ea.Memory.Total()/1e9), fmt.Sprintf("%.1f GB", eb.Memory.Total()/1e9))
	for i := range x {
		if x[i].Value > 0 || y[i].Value > 0 {
			row("  "+x[i].Name, fmt.Sprintf("%.1f GB", x[i].Value/1e9), fmt.Sprintf("%.1f GB", y[i].Value/1e9))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s against %s: %s\n", names[1], names[0], search.Why(search.Plan{Strategy: a.Strategy, Estimate: ea}, search.Plan{Strategy: b.Strategy, Estimate: eb}))
	return err
}

func firstLine(s string) string {
	line, rest, _ := strings.Cut(s, "\n")
	if rest != "" {
		line += " …"
	}
	return line
}

// writeJSON prints all of it for machines.
func (r *planReport) writeJSON(w io.Writer) error {
	type row struct {
		Strategy plan.Strategy `json:"strategy"`
		Text     string        `json:"text"`
		Stages   []int         `json:"stages"`
		Step     float64       `json:"step_seconds"`
		Low      float64       `json:"low_seconds"`
		High     float64       `json:"high_seconds"`
		Tokens   float64       `json:"tokens_per_second"`
		MFU      float64       `json:"mfu"`
		Parts    plan.Parts    `json:"parts_seconds"`
		Memory   plan.Memory   `json:"memory_bytes"`
		Why      string        `json:"why,omitempty"`
	}
	of := func(p search.Plan, why string) row {
		e := p.Estimate
		return row{p.Strategy, p.Strategy.String(), planfile.Stages(r.workload.Model.Layers, p.Strategy), e.Step, e.Low, e.High, r.workload.Tokens() / e.Step, e.MFU, e.Parts, e.Memory, why}
	}
	type question struct {
		Text string `json:"text"`
		Plan *row   `json:"plan,omitempty"`
		Why  string `json:"why"`
	}
	out := struct {
		Workload plan.Workload `json:"workload"`
		Cluster  string        `json:"cluster"`
		Devices  int           `json:"devices"`
		Plans    []row         `json:"plans"`
		WhatIf   []question    `json:"what_if,omitempty"`
		Mapping  []int         `json:"mapping,omitempty"`
		Bound    float64       `json:"bound_seconds"`
		Gap      float64       `json:"gap"`
		Cells    int           `json:"divisions"`
		Visited  int           `json:"visited"`
		Priced   int           `json:"priced"`
		Seconds  float64       `json:"search_seconds"`
	}{
		Workload: r.workload, Cluster: r.cluster.String(), Devices: r.cluster.Size(), Bound: r.answer.Bound, Gap: r.answer.Gap(),
		Cells: r.answer.Cells, Visited: r.answer.Visited, Priced: r.answer.Priced, Seconds: r.took.Seconds(),
	}
	for i, p := range r.answer.Plans {
		why := ""
		if i > 0 {
			why = search.Why(r.answer.Plans[0], p)
		}
		out.Plans = append(out.Plans, of(p, why))
	}
	for _, q := range r.asked {
		x := question{Text: q.text, Why: q.why}
		if q.plan != nil {
			p := of(*q.plan, "")
			x.Plan = &p
		}
		out.WhatIf = append(out.WhatIf, x)
	}
	if m := r.answer.Mapping; m != nil {
		out.Mapping = m.Devices
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
