package check

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/auto"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/executor/choose"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// AutoConfig describes the programs to search plans for, and how exhaustively the search is verified.
type AutoConfig struct {
	Device *galley.Device
	// Calibration is the text of a file of galley calibrate, of this machine.
	Calibration []byte
	// Devices is the number of in-process devices.
	Devices int
	// Limit is the most candidates of a program that are tried: in a larger space recomputation, the number of
	// micro-batches, and then devices are fixed, for the search, too.
	Limit int
	// Rounds is the number of alternating timed turns of the plan and data parallelism; 0 means no timing.
	Rounds int
	// Programs are those to plan; nil means AutoPrograms.
	Programs []AutoProgram
	// Tell, if set, is called with the progress.
	Tell func(what string, done, all int)
}

// AutoRow is the result for one program.
type AutoRow struct {
	Name string
	// Space is the number of candidates, Priced how many of them the search evaluated; Found and Best are the
	// predicted seconds of its result and of the best of all.
	Space, Priced int
	Found, Best   float64
	// Plan is the best plan on all devices with nothing fixed, Planned its predicted seconds; Step and Data are
	// the measured seconds of the plan and of data parallelism, Ratio the median of their ratios in each round.
	// It is 1 if the plan is data parallelism.
	Plan          string
	Planned       float64
	Step, Data    float64
	Ratio         float64
	steps, others []float64
}

// AutoRows is the rows of all programs.
type AutoRows []*AutoRow

// The most that the search's result may be slower than the best, and the plan than data parallelism when
// measured; the latter is the variation of identical steps.
const mostOff, mostSlower = 1.05, 1.05

// Holds reports whether every plan is close to the best and none is slower than data parallelism.
func (r AutoRows) Holds() bool {
	for _, x := range r {
		if x.Found > mostOff*x.Best || x.Ratio > mostSlower {
			return false
		}
	}
	return true
}

// String prints the table.
func (r AutoRows) String() string {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"%-19s %7s %7s %9s %9s %6s  %9s %9s %9s %6s  %s\n",
		"program",
		"space",
		"priced",
		"found",
		"best",
		"off",
		"planned",
		"measured",
		"data par.",
		"ratio",
		"plan",
	)
	for _, x := range r {
		fmt.Fprintf(
			&b,
			"%-19s %7d %7d %7.3fms %7.3fms %5.1f%%  %7.3fms %7.3fms %7.3fms %6.2f  %s\n",
			x.Name,
			x.Space,
			x.Priced,
			1e3*x.Found,
			1e3*x.Best,
			100*(x.Found/x.Best-1),
			1e3*x.Planned,
			1e3*x.Step,
			1e3*x.Data,
			x.Ratio,
			x.Plan,
		)
	}
	return b.String()
}

// Auto searches a plan for every program, evaluates every candidate of the same space, and times the plan
// against data parallelism.
func Auto(w io.Writer, c AutoConfig) (AutoRows, error) {
	if c.Programs == nil {
		c.Programs = AutoPrograms()
	}
	rows := make(AutoRows, len(c.Programs))
	if err := c.tryAll(rows); err != nil {
		return nil, err
	}
	for i, p := range c.Programs {
		if c.Tell != nil {
			c.Tell("measuring", i, len(c.Programs))
		}
		if err := c.measure(p, rows[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	_, err := io.WriteString(w, rows.String())
	return rows, err
}

// tryAll evaluates the candidates of all programs in parallel, without timing.
func (c *AutoConfig) tryAll(rows AutoRows) error {
	if c.Tell != nil {
		c.Tell("planning", 0, len(c.Programs))
	}
	errs := make([]error, len(rows))
	var wg sync.WaitGroup
	for i, p := range c.Programs {
		rows[i] = &AutoRow{Name: p.Name, Ratio: 1}
		wg.Go(func() {
			if err := c.try(p, rows[i]); err != nil {
				errs[i] = fmt.Errorf("%s: %w", p.Name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// try compares the search's result with the best of all candidates.
func (c *AutoConfig) try(p AutoProgram, row *AutoRow) error {
	config, err := c.space(p)
	if err != nil {
		return err
	}
	found, err := auto.Find(config)
	if err != nil {
		return err
	}
	best, err := auto.Try(config)
	if err != nil {
		return err
	}
	row.Space, row.Priced, row.Found, row.Best = best.Priced, found.Priced, found.Seconds, best.Seconds
	return nil
}

// space returns the candidates of a program, reduced to the limit.
func (c *AutoConfig) space(p AutoProgram) (out auto.Config, err error) {
	in := nn.NewInit(nn.Config{})
	loss := p.Build(in)
	for devices := c.Devices; ; devices /= 2 {
		m, err := auto.Local(devices, c.Device.Threads(), c.Calibration)
		if err != nil {
			return out, err
		}
		for _, pinned := range []strategy.Strategy{{}, {Recompute: strategy.None},
			{Recompute: strategy.None, Micro: 1}} {
			out = auto.Config{Run: executor.Config{Params: in.Params(), Loss: loss, Optimizer: optim.AdamW{}},
				Batch: p.Batch, Machine: m, Pinned: pinned, Plan: choose.Plan}
			if n, err := auto.Count(out); err != nil || n <= c.Limit || devices == 1 {
				return out, err
			}
		}
	}
}

// autoModel is a program as a model with its own loss.
type autoModel struct {
	params []*nn.Param
	loss   func(batch []*op.Tensor) *op.Tensor
	inputs int
}

func (m *autoModel) Params() []*nn.Param { return m.params }
func (m *autoModel) Forward(in ...*galley.Tensor) []*galley.Tensor {
	return []*galley.Tensor{m.loss(in)}
}
func (m *autoModel) Loss(in, labels []*galley.Tensor) *galley.Tensor {
	return m.loss(append(in[:len(in):len(in)], labels...))
}
func (m *autoModel) Inputs() int { return m.inputs }

func (c *AutoConfig) model(p AutoProgram) *autoModel {
	in := nn.NewInit(nn.Config{Scope: c.Device.NewSession(), Seed: 1})
	loss := p.Build(in)
	return &autoModel{in.Params(), loss, len(p.Batch)}
}

// measure plans for all devices and times the plan against data parallelism.
func (c *AutoConfig) measure(p AutoProgram, row *AutoRow) error {
	m := c.model(p)
	plan, err := galley.Plan(
		m,
		"",
		galley.PlanConfig{Batch: p.Batch, Devices: c.Devices, Calibration: c.Calibration,
			Optimizer: optim.AdamW{}},
	)
	if err != nil {
		return err
	}
	row.Plan, row.Planned = plan.Strategy.String(), plan.Step
	if plan.Strategy.Equal(galley.Strategy{DP: c.Devices, Micro: 1}) || c.Rounds == 0 {
		return nil
	}
	planned, err := plan.Apply(m, optim.AdamW{})
	if err != nil {
		return err
	}
	a, err := galley.ToStatic(planned, nil, nil, nil, nil)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := galley.ToStatic(c.model(p), nil, nil, optim.AdamW{}, &galley.Strategy{DP: c.Devices})
	if err != nil {
		return err
	}
	defer b.Close()
	return c.race(p, row, a.Trainer(), b.Trainer())
}

// race lets two trainers run steps in turn. The first round is not counted.
func (c *AutoConfig) race(p AutoProgram, row *AutoRow, a, b *galley.Trainer) error {
	var ratios []float64
	batch := p.batch()
	for round := range c.Rounds + 1 {
		x, err := timeSteps(a, batch)
		if err != nil {
			return err
		}
		y, err := timeSteps(b, batch)
		if err != nil {
			return err
		}
		if round > 0 {
			row.steps, row.others, ratios = append(row.steps, x), append(row.others, y), append(ratios, x/y)
		}
	}
	row.Step, row.Data, row.Ratio = median(row.steps), median(row.others), median(ratios)
	return nil
}

// timeSteps returns the seconds of a step, from a few in a row.
func timeSteps(t *galley.Trainer, batch []array.Array) (float64, error) {
	start := time.Now()
	for range stepsOfTurn {
		if _, err := t.Step(batch...); err != nil {
			return 0, err
		}
	}
	return time.Since(start).Seconds() / stepsOfTurn, nil
}

const stepsOfTurn = 4

// batch returns a batch of pseudo-random numbers, from a multiplicative hash.
func (p AutoProgram) batch() []array.Array {
	var list []array.Array
	for _, t := range p.Batch {
		a := array.New(t.DType, t.Shape...)
		for i := range a.Len() {
			h := uint32(i+1) * 2654435761
			if t.DType == array.I32 {
				array.Data[int32](a)[i] = int32(uint64(h) * uint64(p.Limit) >> 32)
			} else {
				array.Data[float32](a)[i] = float32(h)/(1<<31) - 1
			}
		}
		list = append(list, a)
	}
	return list
}
