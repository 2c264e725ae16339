package check

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/check/report"
	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/dryrun"
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/internal/search"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// PlansConfig selects the pairs of a model and a cluster to plan.
type PlansConfig struct {
	// Pairs is the number of pairs; 0 means all. Filter is a part of their names.
	Pairs  int
	Filter string
	// Top is the number of plans of each search that are built, the best first; 0 means one.
	Top int
}

// Pair is a training run to plan for.
type Pair struct {
	Model, Cluster     string
	Layers, Batch, Seq int
	// Pin is a condition that the plan must satisfy.
	Pin string
}

func (p Pair) String() string {
	text := fmt.Sprintf("%s×%d, %d×%d tokens, %s", p.Model, p.Layers, p.Batch, p.Seq, p.Cluster)
	if p.Pin != "" {
		text += ", " + p.Pin
	}
	return text
}

// Plans finds the best plan for each pair, writes it with the memory of its tapes, reads it back, and lets a
// trainer plan the run: it must accept it, and every device must need exactly the bytes in the file.
func Plans(w io.Writer, c PlansConfig) (*report.Report, error) {
	r := report.New(w, false)
	dir, err := os.MkdirTemp("", "galley-plans-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var worst planned
	for i, p := range Pairs() {
		if c.Pairs > 0 && i >= c.Pairs || !contains(p.String(), c.Filter) {
			continue
		}
		tried, err := p.try(filepath.Join(dir, "plan.yaml"), max(1, c.Top))
		var faults []string
		if err != nil {
			faults = []string{err.Error()}
		}
		for _, x := range tried {
			fmt.Fprintf(w, "ok    %s: %s\n", p, x.line)
			if x.ratio > 0 && (worst.ratio == 0 || x.ratio < worst.ratio) {
				worst = planned{p.String() + ": " + x.line, x.ratio}
			}
		}
		r.Add(p.String(), faults, "")
	}
	if worst.ratio > 0 {
		fmt.Fprintf(w, "the lowest estimate is %.2f of what is taken: %s\n", worst.ratio, worst.line)
	}
	r.Last()
	return r, nil
}

// try plans a pair and builds its best plans; it returns the memory of each.
func (p Pair) try(path string, top int) (tried []planned, err error) {
	w, hw, err := p.workload()
	if err != nil {
		return nil, err
	}
	pin, err := search.ParsePin(p.Pin)
	if err != nil {
		return nil, err
	}
	a, err := dryrun.Find(dryrun.FindConfig{Calibration: plan.Default(hw, w), Tapes: true,
		Config: search.Config{Workload: w, Cluster: hw, Pin: pin, Top: top, Workers: 1}})
	if err != nil {
		return nil, err
	}
	if a.Misfit != nil {
		return nil, a.Misfit
	}
	for _, text := range a.Left {
		tried = append(tried, planned{line: "left out: " + text})
	}
	for i, x := range a.Plans {
		f := planfile.New(w, hw, x.Strategy, x.Estimate)
		most, err := Planned(path, f)
		if err != nil {
			return tried, fmt.Errorf("%s: %w", x.Strategy.Line(), err)
		}
		ratio := x.Estimate.Memory.Total() / float64(most)
		line := fmt.Sprintf("%s: at most %d bytes, estimated %.0f, %.2f of that", x.Strategy.Line(), most,
			x.Estimate.Memory.Total(), ratio)
		tried = append(tried, planned{line, ratio})
		over, err := dryrun.Over(f)
		switch {
		case err != nil:
			return tried, err
		case ratio < LeastEstimate:
			return tried, fmt.Errorf("%s: the estimate is below %.2f of what it takes", line, LeastEstimate)
		case over != "" && i == 0:
			return tried, fmt.Errorf("%s: %s", x.Strategy.Line(), over)
		}
	}
	return tried, nil
}

// planned is a plan that was built, with the estimate of its memory relative to the actual one.
type planned struct {
	line  string
	ratio float64
}

// LeastEstimate is the least ratio of the search's estimate of memory, which includes the context of the
// planned devices, to the memory of tapes.
const LeastEstimate = 0.95

func (p Pair) workload() (plan.Workload, *cluster.Cluster, error) {
	m, err := plan.ModelPreset(p.Model)
	if err != nil {
		return plan.Workload{}, nil, err
	}
	m.Layers = p.Layers
	hw, err := cluster.Parse(p.Cluster)
	w := plan.Workload{Model: m, Batch: p.Batch, Seq: p.Seq, Precision: "bf16"}
	return w, hw, err
}

// Planned writes a plan with the memory of its tapes, reads it back as a trainer does, and compares the
// memory. It returns the most that a device needs.
func Planned(path string, f *planfile.File) (most int, err error) {
	run, err := dryrun.File(f, models.Config{})
	if err != nil {
		return 0, err
	}
	tapes, err := dryrun.Plan(run)
	if err != nil {
		return 0, err
	}
	f.Predicted.Devices = dryrun.Memory(tapes)
	if err := f.Save(path); err != nil {
		return 0, err
	}
	back, err := planfile.Load(path)
	if err != nil {
		return 0, err
	}
	s, err := forecast.Runnable(back)
	if err != nil {
		return 0, err
	}
	p, err := trainerPlan(run.Model, run.Batch, run.Seq, s)
	if err != nil {
		return 0, err
	}
	for d, m := range p.Memory {
		if most = max(most, m.Peak()); int64(m.Peak()) != back.Predicted.Devices[d] {
			return 0, fmt.Errorf("device %d takes %d bytes: the plan has %d", d, m.Peak(), back.Predicted.Devices[d])
		}
	}
	return most, nil
}

// trainerPlan returns the plan of a trainer for a new model.
func trainerPlan(c models.Config, batch, seq int, s strategy.Strategy) (*galley.StepPlan, error) {
	m, err := models.New(c, nn.Config{})
	if err != nil {
		return nil, err
	}
	arranged, _, err := galley.Arrange(m, s, seq)
	if err != nil {
		return nil, err
	}
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	t, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params(), Strategy: &s, ClipNorm: 1,
		Optimizer: optim.AdamW{Beta1: 0.9, Beta2: 0.95, WeightDecay: 0.1},
		Load:      func(*nn.Param, mesh.Box, array.Array) error { return fmt.Errorf("a dry run loads nothing") },
		Loss: func(b []*op.Tensor) *op.Tensor {
			n := b[0].Dim(1)
			return arranged.Loss(op.Narrow(b[0], 1, 0, n-1), op.Narrow(b[0], 1, 1, n))
		}})
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return t.Plan(dryrun.Windows(batch, seq))
}
