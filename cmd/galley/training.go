package main

import (
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/op"
)

// compute returns the dtype of matrix products, if it is not that of the parameters.
func (t *training) compute() array.DType {
	if t.BF16 {
		return array.BF16
	}
	return array.Invalid
}

// chooseStrategy returns the strategy of the flags, of a plan file, or of the planner.
func (t *training) chooseStrategy() (*galley.Strategy, error) {
	if t.next != nil {
		return t.next, nil
	}
	run := galley.AutoConfig{Model: t.model.Config(), Batch: t.Batch, Seq: t.Seq, Devices: t.Devices, AMP: t.AMP}
	given := t.Mesh != ""
	if t.Cluster != "" && (given || t.Plan != "" || job == nil) {
		return nil, fmt.Errorf(
			"--cluster=%s: it is for the planner of a job: want a launcher, and neither --mesh nor --plan",
			t.Cluster,
		)
	}
	if job != nil && !given && t.Plan == "" && run.Devices == 0 {
		run.Devices = job.Size()
	}
	if s, err := t.epochStrategy(); s != nil || err != nil {
		return s, err
	}
	switch {
	case t.Plan != "" && given:
		return nil, fmt.Errorf("--plan=%s and --mesh=%s: want one of them", t.Plan, t.Mesh)
	case t.Plan != "":
		s, err := galley.PlanFile(t.Plan, run)
		if err == nil && t.AMP != "off" && t.AMP != s.AMP {
			err = fmt.Errorf(
				"--amp=%s: %s was planned with %s: make a plan with another --precision",
				t.AMP,
				t.Plan,
				s.AMP,
			)
		}
		return &s, err
	case t.b != nil && t.Devices > 1 && !given:
		return nil, fmt.Errorf(
			"--devices=%d: the planner is for in-process devices: say how %s is used: --mesh dp=%[1]d",
			t.Devices,
			t.b.Name(),
		)
	case run.Devices > 0 && !given:
		return t.auto(run)
	}
	s, err := t.strategy()
	if err == nil && t.Devices > 0 && s != nil && s.Devices() != t.Devices {
		err = fmt.Errorf("--mesh=%s takes %d devices: --devices=%d", t.Mesh, s.Devices(), t.Devices)
	}
	return s, err
}

// onMachine adds to a run what is known of the machine: its calibration, hosts and links.
func (t *training) onMachine(run galley.AutoConfig) (galley.AutoConfig, error) {
	if t.Calibration != "" {
		text, err := strict.ReadFile(t.Calibration, strict.Config)
		if err != nil {
			return run, fmt.Errorf("--calibration: %w", err)
		}
		run.Calibration = text
	}
	if job != nil {
		run.Hosts = hostsOf(job.Hosts(), job.Threads())
	}
	if t.Cluster != "" {
		text, err := strict.ReadFile(t.Cluster, strict.Config)
		if err != nil {
			return run, fmt.Errorf("--cluster: %w", err)
		}
		run.Cluster = text
	}
	return run, nil
}

// auto runs the planner and prints its choice.
func (t *training) auto(run galley.AutoConfig) (*galley.Strategy, error) {
	run, err := t.onMachine(run)
	if err != nil {
		return nil, err
	}
	p, err := first(func() (*galley.AutoPlan, error) {
		p, err := galley.Auto(run)
		if err == nil {
			fmt.Println(p)
		}
		return p, err
	})
	if err != nil {
		return nil, err
	}
	return t.probed(run, p)
}

// first returns the first process's result of f on all processes of a job.
func first[T any](f func() (*T, error)) (*T, error) {
	if job == nil {
		return f()
	}
	var text []byte
	var err error
	if job.First() {
		var x *T
		if x, err = f(); err != nil {
			return nil, err
		}
		if text, err = json.Marshal(x); err != nil {
			return nil, err
		}
	}
	told, err := job.Broadcast(string(text))
	if err != nil {
		return nil, err
	}
	x := new(T)
	return x, json.Unmarshal([]byte(told), x)
}

// newTrainer plans the training and, on many devices, prints the memory that it needs.
func (t *training) newTrainer() (*galley.Trainer, error) {
	s, err := t.chooseStrategy()
	if err != nil {
		return nil, err
	}
	ranks, shares, err := t.mixed(s)
	if err != nil {
		return nil, err
	}
	if err := t.printKinds(); err != nil {
		return nil, err
	}
	if len(shares) > 0 {
		s = nil
	}
	if s == nil && t.watch != nil {
		s = &galley.Strategy{}
	}
	if s != nil && s.Host == 0 && t.b == nil && job != nil {
		s.Host = sharing(job.Hosts(), s.Devices())
	}
	model, err := t.withLoss(t.model)
	if err != nil {
		return nil, err
	}
	if t.spread = s; s != nil {
		var notes []string
		if model, notes, err = galley.Arrange(model, *s, t.Seq); err != nil {
			return nil, err
		}
		for _, n := range notes {
			fmt.Println(n)
		}
	}
	if t.adapt, err = t.adapts(s); err != nil {
		return nil, err
	}
	if t.traffic, err = t.logsTraffic(s); err != nil {
		return nil, err
	}
	c := t.trainerConfig(s, model)
	c.RankBackends, c.Shares = ranks, shares
	trainer, err := galley.NewTrainer(c)
	if err != nil || t.b != nil {
		return trainer, err
	}
	if err := t.fitsPlan(trainer); err != nil || s == nil {
		return trainer, err
	}
	p, err := trainer.Plan(typesOf(t.text.From(0))...)
	if err != nil {
		return nil, err
	}
	fmt.Println(p)
	if err := t.fitsSnapshots(p); err != nil {
		return nil, err
	}
	if t.adapt != nil {
		t.adapt.weigh(p)
	}
	return trainer, nil
}

// typesOf returns the types of a batch.
func typesOf(batch []array.Array) []ir.Type {
	types := make([]ir.Type, len(batch))
	for i, a := range batch {
		types[i] = ir.Type{DType: a.DType(), Shape: a.Shape()}
	}
	return types
}

// trainerConfig returns the trainer's configuration.
func (t *training) trainerConfig(s *galley.Strategy, model models.Model) galley.TrainerConfig {
	mode := galley.Static
	if t.Eager {
		mode = galley.Eager
	}
	c := galley.TrainerConfig{
		Device: t.d, Backend: t.b, Compute: t.compute(), Params: t.model.Params(), Mode: mode, Strategy: s,
		Watch: t.watch, Job: job,
		Loss:      func(batch []*op.Tensor) *op.Tensor { return t.lossOf(model, batch) },
		Optimizer: t.optimizer(t.Decay),
		Schedule:  t.learningRate(t.LR, t.Steps),
		ClipNorm:  t.Clip, DetectNaN: t.DetectNaN, Seed: t.Seed, Facts: t.facts(),
	}
	if t.adapt != nil {
		c.Watch = t.adapt.watch.Span
	}
	if t.traffic != nil {
		c.Watch = watchers(c.Watch, t.traffic.span)
	}
	if t.weights != nil {
		c.Load = t.weights.ReadBox
	}
	return c
}

// facts returns the settings that identify the run, which its checkpoints record.
func (t *training) facts() []galley.Fact {
	tokens := "bytes"
	if t.tokenizer.text != nil {
		tokens = fmt.Sprintf("hash %08x", crc32.ChecksumIEEE(t.tokenizer.text))
	}
	if t.text == nil {
		return nil // in a dry run
	}
	list := append(t.text.Facts(), t.model.Config().Fact(), galley.Fact{Name: "tokenizer", Value: tokens})
	return append(append(list, t.optimizerFlags.facts()...), t.more...)
}
