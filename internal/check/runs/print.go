package runs

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/galley-ml/galley/internal/plan"
)

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
	if u := counted(s.unread); u != "" {
		fmt.Fprintf(t.w, "  not read: %s\n", u)
	}
	if exact, given := parameters(s.cases); given > 0 {
		fmt.Fprintf(t.w, "  parameters: %d of %d counts exact\n", exact, given)
	}
	if !t.verbose {
		return
	}
	for _, c := range s.cases {
		p := &c.got.Parts
		fmt.Fprintf(t.w,
			"  %-58s %9.4f s, predicted %9.4f (%+.1f%%)  compute %.0f%% again %.0f%% tp %.0f%% cp %.0f%% ep %.0f%% "+
				"pp %.0f%% dp %.0f%% bubble %.0f%% update %.0f%%",
			c.row.ID, c.step, c.got.Step, 100*(c.got.Step/c.step-1), pc(p.Compute, p), pc(p.Recompute, p), pc(p.TP,
				p), pc(p.CP, p), pc(p.EP, p), pc(p.PP, p), pc(p.DP, p), pc(p.Bubble, p), pc(p.Optimizer, p))
		if c.memory > 0 {
			m := &c.got.Memory
			fmt.Fprintf(t.w, "  memory %.1f GiB, predicted %.1f (w %.1f g %.1f o %.1f a %.1f l %.1f b %.1f)",
				c.memory/(1<<30), c.predictedMemory()/(1<<30),
				m.Weights/(1<<30), m.Gradients/(1<<30), m.Optimizer/(1<<30), m.Activations/(1<<30), m.Logits/(1<<30),
				m.Buffers/(1<<30))
		}
		fmt.Fprintln(t.w)
	}
}

// parameters counts the rows whose number of parameters is the model's.
func parameters(cases []*runCase) (exact, given int) {
	for _, c := range cases {
		if c.row.Model.Params > 0 {
			given++
			if c.workload.Model.Params() == c.row.Model.Params {
				exact++
			}
		}
	}
	return exact, given
}

func pc(x float64, p *plan.Parts) float64 { return 100 * x / p.Sum() }

// assumptions counts what rows do not specify.
func assumptions(cases []*runCase) string {
	lists := make([][]string, len(cases))
	for i, c := range cases {
		lists[i] = c.assumed
	}
	return counted(lists)
}

// counted returns what rows name, with how many do.
func counted(lists [][]string) string {
	var words []string
	var counts []int
	for _, list := range lists {
		for _, a := range list {
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

// summary prints the table: each source predicted with constants from other sources, and without.
func (t *runTable) summary() {
	w := tabwriter.NewWriter(t.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w,
		"source\trows\tMAPE\tmedian\tmax\tbias\tin interval\ttau "+
			"(>5%)\tregret\tworst\tmemory\tOOM\tfactor\tunfitted MAPE\tbias\t")
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
		line(w, s.name, s.held, s.factors(), s.level1)
	}
	line(w, "Megatron-style A100/H100, source left out", score(mega), "", plainScore(mega))
	whole := score(all)
	line(w, "all, source left out", whole, "", plainScore(all))
	w.Flush()
	t.targets(whole)
}

// Targets for predictions of held-out sources.
const (
	wantMAPE, wantRegret = 0.12, 0.03
	wantHeld             = 0.85
)

// targets prints which of them are reached.
func (t *runTable) targets(all runScore) {
	if all.n == 0 {
		return
	}
	verdict := func(reached bool) string { return map[bool]string{true: "reached", false: "missed"}[reached] }
	fmt.Fprintf(t.w, "mean error %s, at most %s wanted: %s\n", percent(all.mape, 1), percent(wantMAPE, 1),
		verdict(all.mape <= wantMAPE))
	var worse []string
	for _, s := range t.sources {
		if s.held.n > 0 && s.held.mape > s.level1.mape+0.0005 {
			worse = append(worse, fmt.Sprintf("%s (%s, %s without)", s.name, percent(s.held.mape, 1),
				percent(s.level1.mape, 1)))
		}
	}
	if worse == nil {
		worse = []string{"none"}
	}
	fmt.Fprintf(t.w, "sources that others' factors make worse, none wanted: %s\n", strings.Join(worse, ", "))
	if all.groups > 0 {
		fmt.Fprintf(t.w, "regret %s, at most %s wanted: %s\n", percent(all.regret, 1), percent(wantRegret, 1),
			verdict(all.regret <= wantRegret))
	}
	held := float64(all.held) / float64(all.n)
	fmt.Fprintf(t.w, "in the interval %s, at least %s wanted: %s\n", percent(held, 1), percent(wantHeld, 1),
		verdict(held >= wantHeld))
}

// megatron reports whether a row is of a Megatron-style source on A100 or H100.
func (c *runCase) megatron() bool {
	f := strings.ToLower(c.row.Framework)
	k := c.kind()
	return (k.Device == "A100" || k.Device == "H100") && c.strategy.Zero < 3 &&
		(strings.Contains(f, "megatron") || strings.Contains(f, "nemo"))
}

// factors prints the factors by which predictions of a source were multiplied.
func (s *runSource) factors() string {
	if s.most-s.least < 0.005 {
		return fmt.Sprintf("×%.2f", s.most)
	}
	return fmt.Sprintf("×%.2f to ×%.2f", s.least, s.most)
}

// plainScore returns the score of the predictions without constants.
func plainScore(cases []*runCase) (s runScore) {
	for _, c := range cases {
		if c.step > 0 {
			s.n++
			s.mape += math.Abs(c.plain/c.step - 1)
			s.bias += c.plain/c.step - 1
		}
	}
	s.mape, s.bias = s.mape/float64(max(1, s.n)), s.bias/float64(max(1, s.n))
	return s
}

func line(w io.Writer, name string, s runScore, factors string, plain runScore) {
	tau, reg, worst := "-", "-", "-"
	if s.groups > 0 {
		all, far := s.tau()
		tau, reg, worst = fmt.Sprintf("%.2f (%.2f)", all, far), percent(s.regret, 1), percent(s.worst, 1)
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
		oom = fmt.Sprintf("%d of %d right (%d of %d failures)", s.oom[0][0]+s.oom[1][1], n, s.oom[1][1],
			s.oom[1][0]+s.oom[1][1])
	}
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, s.n,
		percent(s.mape, s.n), percent(s.median, s.n), percent(s.max, s.n),
		signed(s.bias, s.n), inside, tau, reg, worst, memory, oom, factors,
		percent(plain.mape, plain.n), signed(plain.bias, plain.n))
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
