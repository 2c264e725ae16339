package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/internal/probe"
	"github.com/galley-ml/galley/internal/search"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// Probing takes at most a twentieth of the expected training time, and at most half a minute.
const (
	probeShare   = 20
	longestProbe = 30 * time.Second
	leastProbe   = 2 * time.Second
)

// probes reports whether the user requests to measure plans before training.
func (c *trainCmd) probes() bool { return c.Probe != "off" && c.Probe != "" && c.Probe != "auto" }

// probeTime returns how long train may probe: the value of --probe, or by the expected training time.
func (t *training) probeTime(step float64) (time.Duration, error) {
	switch {
	case t.Probe == "off", t.Probe == "", t.Probe == "auto" && elastic != nil: // elastic epochs do not probe
		return 0, nil
	case t.Probe == "auto":
		all := time.Duration(step * float64(max(0, t.Steps)) * float64(time.Second))
		if share := min(longestProbe, all/probeShare); share >= leastProbe {
			return share, nil
		}
		return 0, nil
	}
	d, err := time.ParseDuration(t.Probe)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("--probe=%s: want auto, off, or a time such as 20s", t.Probe)
	}
	return d, nil
}

// probed returns the fastest of the planner's best candidates, as measured on this machine if there is time
// for it; else the planner's choice. It also learns the machine's calibration from the measurement.
func (t *training) probed(run galley.AutoConfig, p *galley.AutoPlan) (*galley.Strategy, error) {
	budget, err := t.probeTime(p.Step)
	if err != nil || budget == 0 {
		return &p.Strategy, err
	}
	list, err := first(func() (*[]forecast.Candidate, error) {
		list, err := forecast.Candidates(forecast.Run(run), probeCandidates)
		return &list, err
	})
	if err != nil {
		return nil, err
	}
	batch := t.text.From(0)
	r, err := probe.Run(probe.Config{Candidates: *list, Job: job, Budget: budget, Room: probeRoom(),
		Open: func(s galley.Strategy) (probe.Stepper, error) { return stepping(t.probeTrainer, s, batch) }})
	if err != nil {
		return nil, err
	}
	fmt.Println(r)
	run.Hosts, run.Cluster = nil, nil // the calibration is of this machine only
	cal, err := forecast.Learn(forecast.Run(run), r.Measured())
	if err != nil {
		return nil, err
	}
	t.learned = &cal
	if t.Learned != "" && job.First() {
		if err := os.WriteFile(t.Learned, cal.YAML(), 0o644); err != nil {
			return nil, fmt.Errorf("--learned: %w", err)
		}
	}
	return &r.Best().Strategy, nil
}

// stepper takes steps of a trainer with one fixed batch.
type stepper struct {
	*galley.Trainer
	batch []array.Array
}

func (s stepper) Step() error {
	_, err := s.Trainer.Step(s.batch...)
	return err
}

// stepping returns a stepper of a new trainer.
func stepping(make func(galley.Strategy) (*galley.Trainer, error), s galley.Strategy,
	batch []array.Array) (probe.Stepper, error) {
	t, err := make(s)
	if err != nil {
		return nil, err
	}
	return stepper{t, batch}, nil
}

// probeRoom returns how many bytes idle candidates may hold between their turns: half of the free memory.
func probeRoom() float64 {
	free, _ := (host{root: "/"}).available()
	return free / 2
}

// probeCandidates is the largest number of strategies to measure.
const probeCandidates = 6

// probeTrainer returns a trainer of another model of the same shape, so that the run's model is not changed.
func (t *training) probeTrainer(s galley.Strategy) (*galley.Trainer, error) {
	model, err := models.New(t.model.Config(), nn.Config{Scope: t.d.NewSession(), Seed: t.Seed})
	if err != nil {
		return nil, err
	}
	params := model.Params()
	if model, err = t.withLoss(model); err != nil {
		return nil, err
	}
	if model, _, err = galley.Arrange(model, s, t.Seq); err != nil {
		return nil, err
	}
	c := t.trainerConfig(&s, model)
	c.Params, c.Watch, c.Load = params, nil, nil
	trainer, err := galley.NewTrainer(c)
	if err != nil {
		return nil, err
	}
	if err := t.fitsPlan(trainer); err != nil {
		trainer.Close()
		return nil, err
	}
	return trainer, nil
}

// planProbe measures plans of a model on devices of this process, or of a job.
type planProbe struct {
	*planCmd
	d      *galley.Device
	config models.Config
	run    forecast.Run
}

// probe implements galley plan --probe.
func (c *planCmd) probe() error {
	p := &planProbe{planCmd: c}
	if err := p.prepare(); err != nil {
		return err
	}
	threads := 0
	if job != nil {
		threads = job.Threads()
	}
	p.d = galley.CPU(galley.Config{Threads: threads})
	defer p.d.Close()
	list, err := first(func() (*[]forecast.Candidate, error) {
		list, err := forecast.Candidates(p.run, max(c.Top, probeCandidates))
		return &list, err
	})
	if err != nil {
		return err
	}
	tokens := []array.Array{p.tokens()}
	r, err := probe.Run(probe.Config{Candidates: *list, Job: job, Budget: c.ProbeTime, All: c.ProbeAll,
		Room: probeRoom(),
		Open: func(s galley.Strategy) (probe.Stepper, error) { return stepping(p.trainer, s, tokens) }})
	if err != nil {
		return err
	}
	fmt.Println(r)
	return p.keep(r)
}

// prepare reads the model and sets up the devices to plan for.
func (p *planProbe) prepare() (err error) {
	c := p.planCmd
	switch {
	case c.Model == "":
		return errors.New("--probe: want a model: a directory with a config.json, or that file")
	case c.Cluster != "":
		return fmt.Errorf(
			"--probe measures devices of this process: say how many with --devices, and not %q",
			c.Cluster,
		)
	case c.ProbeTime <= 0:
		return fmt.Errorf("--probe-time=%s: want a time above 0, such as 30s", c.ProbeTime)
	}
	if err := positive(map[string]int{"top": c.Top}); err != nil {
		return err
	}
	if err := natural(map[string]int{"seq": c.Seq}); err != nil {
		return err
	}
	path := c.Model
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "config.json")
	}
	text, err := strict.ReadFile(path, strict.Config)
	if err != nil {
		return fmt.Errorf("--probe runs the model: want a directory with a config.json, or that file: %w", err)
	}
	if p.config, err = models.ParseConfig(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	p.run = forecast.Run{Model: p.config, Batch: c.Batch, Devices: c.Devices,
		Seq: usualSeq(c.Seq, p.config.Positions)}
	if p.run.Batch == 0 {
		p.run.Batch = 16
	}
	if p.run.Devices == 0 {
		p.run.Devices = max(1, job.Size())
	}
	if c.Calibration != "" {
		if p.run.Calibration, err = strict.ReadFile(c.Calibration, strict.Config); err != nil {
			return fmt.Errorf("--calibration: %w", err)
		}
	}
	return longEnough(p.config, p.run.Seq)
}

// trainer returns a trainer of a new model.
func (p *planProbe) trainer(s galley.Strategy) (*galley.Trainer, error) {
	model, err := models.New(p.config, nn.Config{Scope: p.d.NewSession(), Seed: 1})
	if err != nil {
		return nil, err
	}
	arranged, _, err := galley.Arrange(model, s, p.run.Seq)
	if err != nil {
		return nil, err
	}
	return galley.NewTrainer(galley.TrainerConfig{
		Device: p.d, Params: model.Params(), Strategy: &s, ClipNorm: 1, Job: job,
		Loss:      func(batch []*op.Tensor) *op.Tensor { return nextToken(arranged, batch[0]) },
		Optimizer: optim.AdamW{Beta1: 0.9, Beta2: 0.95, WeightDecay: 0.1}, Schedule: optim.Constant{LR: 1e-4},
	})
}

// tokens returns a batch of windows of pseudo-random tokens, by a multiplicative hash.
func (p *planProbe) tokens() array.Array {
	a := array.New(array.I32, p.run.Batch, p.run.Seq+1)
	for i := range a.Len() {
		array.Data[int32](a)[i] = int32(uint64(uint32(i)*2654435761) * uint64(p.config.Vocab) >> 32)
	}
	return a
}

// keep writes the plan and the calibration to the files that the flags name.
func (p *planProbe) keep(r *probe.Report) error {
	if !job.First() {
		return nil
	}
	cal, err := forecast.Learn(p.run, r.Measured())
	if err != nil {
		return err
	}
	if err := os.WriteFile(p.Learned, cal.YAML(), 0o644); err != nil {
		return fmt.Errorf("--learned: %w", err)
	}
	fmt.Printf(
		"wrote %s: computing takes %.2f times what was predicted, communicating %.2f, ±%.0f%%\n",
		p.Learned,
		cal.Constants.Compute,
		cal.Constants.Communication,
		100*cal.Spread,
	)
	if p.Output == "" {
		return nil
	}
	best := r.Best()
	shape, err := forecast.Shape(p.config)
	if err != nil {
		return err
	}
	w := plan.Workload{Model: shape, Batch: p.run.Batch, Seq: p.run.Seq, Precision: "fp32"}
	e := best.Estimate
	e.Step, e.Low, e.High = best.Seconds(), best.Seconds()/(1+cal.Spread), best.Seconds()*(1+cal.Spread)
	hw := cluster.Local(cluster.LocalConfig{Devices: p.run.Devices})
	if err := planfile.New(w, hw, best.Strategy, e).Save(p.Output); err != nil {
		return err
	}
	fmt.Printf("wrote %s: %s a step\n", p.Output, search.Seconds(e.Step))
	return nil
}
