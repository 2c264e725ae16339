package check

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// PlannerConfig describes a model whose step is predicted and timed with many strategies.
type PlannerConfig struct {
	Device *galley.Device
	// Calibration is the text of a file of galley calibrate, of this machine.
	Calibration []byte
	Model       models.Config
	Batch, Seq  int
	// Rounds is the number of turns of each strategy, of three timed steps; 0 means until repeated measurements
	// agree.
	Rounds int
	// Strategies are those to compare; nil means PlannerStrategies.
	Strategies []galley.Strategy
	// CPU returns the processor time of the process so far, in seconds; nil means that it is not compared.
	CPU func() float64
	// Tell, if set, is called with the progress.
	Tell func(what string, done, all int)
}

func (c *PlannerConfig) tell(what string, done, all int) {
	if c.Tell != nil {
		c.Tell(what, done, all)
	}
}

// Guess is a strategy with its predicted and measured step.
type Guess struct {
	Strategy galley.Strategy
	// Predicted and Measured are seconds of a step, the latter the median of all rounds; Work and CPU are the
	// predicted and measured processor seconds.
	Predicted, Measured float64
	Work, CPU           float64
	// Planned and Allocated are bytes of each device.
	Planned, Allocated []int
	walls, cpus        []float64
}

// Exact reports whether every device allocated the planned bytes.
func (g *Guess) Exact() bool { return slices.Equal(g.Planned, g.Allocated) }

// Guesses is the predictions and measurements of all strategies.
type Guesses struct {
	List []*Guess
}

// wantTau is the least rank correlation of predicted and measured times.
const wantTau = 0.8

// Planner predicts the step of every strategy before any runs, then times them in rounds, some steps of each
// after the other, so that other load on the machine affects all equally.
func Planner(w io.Writer, c PlannerConfig) (*Guesses, error) {
	if c.Strategies == nil {
		c.Strategies = PlannerStrategies()
	}
	g := &Guesses{}
	for i, s := range c.Strategies {
		c.tell("predicting", i, len(c.Strategies))
		x, err := c.guess(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
		g.List = append(g.List, x)
	}
	if err := c.measure(g); err != nil {
		return nil, err
	}
	_, err := io.WriteString(w, g.String())
	return g, err
}

// Without a given number of rounds there are at least and at most this many, until even and odd rounds rank
// strategies alike.
const (
	leastRounds, mostRounds = 4, 16
	wantSelfTau             = 0.85
)

// measure times the strategies round by round.
func (c *PlannerConfig) measure(g *Guesses) error {
	all := c.Rounds
	if all == 0 {
		all = mostRounds
	}
	for round := range all {
		if c.Rounds == 0 && round >= leastRounds && g.SelfTau() >= wantSelfTau {
			break
		}
		for i, x := range g.List {
			c.tell("measuring", round*len(g.List)+i, all*len(g.List))
			if err := c.time(x); err != nil {
				return fmt.Errorf("%s: %w", x.Strategy, err)
			}
		}
	}
	for _, x := range g.List {
		x.Measured, x.CPU = median(x.walls), median(x.cpus)
	}
	return nil
}

// guess plans a strategy's step and predicts it.
func (c *PlannerConfig) guess(s galley.Strategy) (*Guess, error) {
	t, err := c.trainer(s)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	x := &Guess{Strategy: s}
	batch := galley.Type{DType: array.I32, Shape: array.Shape{c.Batch, c.Seq}}
	p, err := t.Plan(batch, batch)
	if err != nil {
		return nil, err
	}
	for _, m := range p.Memory {
		x.Planned = append(x.Planned, m.Peak())
	}
	f, err := t.Forecast(c.Calibration, batch, batch)
	x.Predicted, x.Work = f.Seconds, f.Work
	return x, err
}

func (c *PlannerConfig) trainer(s galley.Strategy) (*galley.Trainer, error) {
	model, err := models.New(c.Model, nn.Config{Scope: c.Device.NewSession(), Seed: 1})
	if err != nil {
		return nil, err
	}
	arranged, _, err := galley.Arrange(model, s, c.Seq)
	if err != nil {
		return nil, err
	}
	return galley.NewTrainer(galley.TrainerConfig{
		Device: c.Device, Params: model.Params(), Strategy: &s, ClipNorm: 1,
		Loss:      func(batch []*op.Tensor) *op.Tensor { return arranged.Loss(batch[0], batch[1]) },
		Optimizer: optim.AdamW{Beta1: 0.9, Beta2: 0.95, WeightDecay: 0.1}, Schedule: optim.Constant{LR: 1e-4},
	})
}

// timedSteps is the number of steps of a strategy that a round times, after one that plans and warms up.
const timedSteps = 3

// time times the steps of one round, with no other tensors in memory, which the garbage collector would scan.
func (c *PlannerConfig) time(x *Guess) error {
	t, err := c.trainer(x.Strategy)
	if err != nil {
		return err
	}
	defer t.Close()
	for i := range timedSteps + 1 {
		if i == 1 {
			runtime.GC()
		}
		ids, labels := c.tokens(uint32(2*i+1)), c.tokens(uint32(2*i+2))
		cpu, start := c.cpu(), time.Now()
		if _, err := t.Step(ids, labels); err != nil {
			return err
		}
		if i > 0 {
			x.walls, x.cpus = append(x.walls, time.Since(start).Seconds()), append(x.cpus, c.cpu()-cpu)
		}
	}
	x.Allocated = t.MemoryAllocated()
	return nil
}

func (c *PlannerConfig) cpu() float64 {
	if c.CPU == nil {
		return 0
	}
	return c.CPU()
}

// tokens returns a batch of ids, spread by a multiplicative hash.
func (c *PlannerConfig) tokens(seed uint32) array.Array {
	a := array.New(array.I32, c.Batch, c.Seq)
	for i := range a.Len() {
		h := (uint32(i) + seed*7919) * 2654435761
		array.Data[int32](a)[i] = int32(uint64(h) * uint64(c.Model.Vocab) >> 32)
	}
	return a
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// Tau returns Kendall's rank correlation of predicted and measured times; WorkTau that of processor time,
// which other programs on the cores affect less.
func (g *Guesses) Tau() float64 {
	return tauOf(g.List, func(x *Guess) (float64, float64) { return x.Predicted, x.Measured })
}

// WorkTau returns the tau of the processor's seconds.
func (g *Guesses) WorkTau() float64 {
	return tauOf(g.List, func(x *Guess) (float64, float64) { return x.Work, x.CPU })
}

// tauOf returns the share of pairs that both numbers rank alike minus the share that they rank differently.
func tauOf(list []*Guess, both func(*Guess) (float64, float64)) float64 {
	agree, pairs := 0, 0
	for i, a := range list {
		for _, b := range list[:i] {
			p, m := both(a)
			q, n := both(b)
			pairs++
			switch d := (p - q) * (m - n); {
			case d > 0:
				agree++
			case d < 0:
				agree--
			}
		}
	}
	return float64(agree) / math.Max(1, float64(pairs))
}

// SelfTau returns how well the measurements agree with each other: tau of the medians of even and odd
// rounds.
func (g *Guesses) SelfTau() float64 {
	return tauOf(g.List, func(x *Guess) (float64, float64) {
		var half [2][]float64
		for i, t := range x.walls {
			round := i / timedSteps
			half[round%2] = append(half[round%2], t)
		}
		return median(half[0]), median(half[1])
	})
}

// Rounds returns the number of turns of each strategy.
func (g *Guesses) Rounds() int {
	if len(g.List) == 0 {
		return 0
	}
	return len(g.List[0].walls) / timedSteps
}

// Ratio returns the median of predicted over measured times.
func (g *Guesses) Ratio() float64 {
	var list []float64
	for _, x := range g.List {
		list = append(list, x.Predicted/x.Measured)
	}
	return median(list)
}

// Exact returns the number of strategies that allocated exactly the planned memory.
func (g *Guesses) Exact() int {
	n := 0
	for _, x := range g.List {
		if x.Exact() {
			n++
		}
	}
	return n
}

// Holds reports whether times are ranked alike and memory is exact.
func (g *Guesses) Holds() bool { return g.Tau() >= wantTau && g.Exact() == len(g.List) }

// String prints the table, the shortest prediction first, and the conclusion.
func (g *Guesses) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-42s %9s %9s %6s %9s %9s %11s %11s\n", "strategy", "predicted", "measured", "ratio",
		"work", "CPU", "planned", "taken")
	list := slices.Clone(g.List)
	slices.SortStableFunc(list, func(a, b *Guess) int { return cmpFloat(a.Predicted, b.Predicted) })
	for _, x := range list {
		fmt.Fprintf(&b, "%-42s %7.1fms %7.1fms %6.2f %7.1fms %7.1fms %11d %11d\n", x.Strategy, 1e3*x.Predicted,
			1e3*x.Measured, x.Predicted/x.Measured,
			1e3*x.Work, 1e3*x.CPU, slices.Max(x.Planned), slices.Max(x.Allocated))
	}
	fmt.Fprintf(&b, "work and processor time: Kendall tau %.3f\n", g.WorkTau())
	fmt.Fprintf(&b, "Kendall tau %.3f over %d strategies (want ≥ %g)\n", g.Tau(), len(g.List), wantTau)
	fmt.Fprintf(&b, "%d rounds; every other one with the rest: Kendall tau %.3f\n", g.Rounds(), g.SelfTau())
	fmt.Fprintf(&b, "median predicted/measured %.2f\n", g.Ratio())
	fmt.Fprintf(&b, "memory exact %d of %d\n", g.Exact(), len(g.List))
	return b.String()
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// PlannerStrategies returns strategies for a model of 8 layers and 4 heads with 16 sequences on one to eight
// devices: every kind of parallelism, alone and combined, some that use the cores well and some that let them
// wait or repeat work.
func PlannerStrategies() []galley.Strategy {
	return []galley.Strategy{
		{}, {Micro: 4}, {Micro: 16}, {Recompute: "selective"}, {Recompute: "full"}, {Micro: 16, Recompute: "full"},
		{DP: 2}, {DP: 8}, {DP: 4, Micro: 4}, {DP: 8, Zero: 1}, {DP: 4, Zero: 3, Micro: 2}, {DP: 8, Zero: 3,
			Recompute: "full"}, {DP: 2, Recompute: "full"},
		{TP: 2}, {TP: 4}, {TP: 2, Sequence: true}, {TP: 4, Sequence: true, Micro: 8}, {TP: 4,
			Recompute: "full"}, {TP: 4, Micro: 16}, {DP: 2, TP: 2}, {DP: 2, TP: 4, Micro: 2},
		{PP: 2, Micro: 1}, {PP: 2, Micro: 2}, {PP: 2, Micro: 8}, {PP: 4, Micro: 2}, {PP: 8, Micro: 8}, {PP: 4,
			Micro: 8, Schedule: "zbh1"},
		{PP: 2, Micro: 4, Schedule: "fthenb"}, {PP: 2, VPP: 2, Micro: 4, Schedule: "interleaved"}, {PP: 2, Micro: 1,
			Recompute: "full"}, {PP: 4, Micro: 4, Recompute: "full"},
		{CP: 2}, {CP: 4}, {CP: 4, Micro: 4}, {CP: 4, Context: "ulysses"},
		{DP: 2, TP: 2, PP: 2, Micro: 4}, {DP: 2, PP: 2, CP: 2, Micro: 2}, {DP: 2, TP: 2, PP: 2, Micro: 2, Zero: 1,
			Recompute: "full"},
	}
}
