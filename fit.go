package galley

import (
	"context"
	"errors"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/checkpoint"
)

// FitConfig says how long to train, and what happens on the way: evaluations, checkpoints, callbacks. The
// zero value is one epoch in silence.
type FitConfig = fit.Config

// History is what a fit told, step by step.
type History = fit.History

// Fit trains on the batches of a loader and returns what happened, also where it ends with an error. Batches
// follow the steps: a second Fit goes on where the first one ended. Valid is evaluated by the trainer's loss.
func (t *Trainer) Fit(ctx context.Context, train Loader, c FitConfig) (*History, error) {
	v := t.NewEvaluator()
	h, err := fit.Run(ctx, subject{t, v.Over}, train, c)
	return h, errors.Join(err, v.Close())
}

// Fit trains on the batches of a loader and returns what happened, also where it ends with an error. Batches
// follow the steps: a second Fit goes on where the first one ended.
func (e *Engine) Fit(ctx context.Context, train Loader, c FitConfig) (*History, error) {
	return fit.Run(ctx, subject{e.trainer, e.Evaluate}, train, c, e.config.Callbacks...)
}

// subject is a trainer as package fit sees it.
type subject struct {
	*Trainer
	evaluate func(ctx context.Context, l Loader, batches int) (Evaluation, error)
}

func (s subject) Sample() int64           { return s.sample }
func (s subject) SetSample(sample int64)  { s.sample = sample }
func (s subject) Peers() checkpoint.Peers { return s.c.Job.Peers() }

func (s subject) Agree(stop int) (int, error) { return s.c.Job.Max(stop) }
func (s subject) Describe(facts []data.Fact)  { s.described = facts }
func (s subject) Lost() error                 { return s.trained.Lost() }

func (s subject) Begin(batch []array.Array) (func() (Metrics, error), error) {
	p, err := s.Start(batch...)
	if err != nil {
		return nil, err
	}
	return p.Wait, nil
}

func (s subject) Evaluate(ctx context.Context, l Loader, batches int) (Evaluation, error) {
	return s.evaluate(ctx, l, batches)
}

func (s subject) Resume(dir string, c ResumeConfig) (*Resumed, error) { return s.ResumeFrom(dir, c) }

func (s subject) Write(ctx context.Context, to *checkpoint.Keeper, scalars ...checkpoint.Scalar) error {
	return s.save(ctx, to, s.sample, scalars...)
}

func (s subject) State(scalars ...checkpoint.Scalar) (checkpoint.State, error) {
	return s.state(s.sample, scalars)
}

// Save writes a checkpoint of the engine's state to dir and returns when it is on disk.
func (e *Engine) Save(ctx context.Context, dir string) (err error) {
	c, err := OpenCheckpoints(CheckpointConfig{Dir: dir, Job: e.config.Job})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := e.trainer.Save(ctx, c, e.trainer.sample); err != nil {
		return err
	}
	return c.Wait(ctx)
}

// Load brings the engine to the newest good checkpoint in dir, whatever strategy and number of devices wrote
// it.
func (e *Engine) Load(dir string) (*Resumed, error) { return e.LoadFrom(dir, ResumeConfig{}) }

// LoadFrom is like Load from a checkpoint of choice.
func (e *Engine) LoadFrom(dir string, c ResumeConfig) (*Resumed, error) {
	return e.trainer.ResumeFrom(dir, c)
}
