package galley

import (
	"context"
	"errors"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/fault"
)

// FitConfig configures Fit: how long to train, and when to evaluate, write checkpoints and call callbacks.
// The zero value trains for one epoch and prints nothing.
type FitConfig = fit.Config

// History records the steps and evaluations of a Fit.
type History = fit.History

// Fit trains on the batches of a loader and returns the history, even if it ends with an error. A second Fit
// continues where the first one ended. Config.Valid is evaluated with the trainer's loss.
func (t *Trainer) Fit(ctx context.Context, train Loader, c FitConfig) (*History, error) {
	v := t.NewEvaluator()
	h, err := fit.Run(ctx, subject{t, v.Over}, train, c)
	return h, errors.Join(err, v.Close())
}

// Fit trains on the batches of a loader and returns the history, even if it ends with an error. A second Fit
// continues where the first one ended.
func (e *Engine) Fit(ctx context.Context, train Loader, c FitConfig) (*History, error) {
	return fit.Run(ctx, subject{e.trainer, e.Evaluate}, train, c, e.config.Callbacks...)
}

// subject adapts a trainer to the interface that package fit trains.
type subject struct {
	*Trainer
	evaluate func(ctx context.Context, l Loader, batches int) (Evaluation, error)
}

func (s subject) Sample() int64           { return s.sample }
func (s subject) SetSample(sample int64)  { s.sample = sample }
func (s subject) Peers() checkpoint.Peers { return s.c.Job.Peers() }

func (s subject) Agree(stop int) (int, error) { return s.c.Job.Max(stop) }
func (s subject) Describe(facts []data.Fact)  { s.loaderFacts = facts }
func (s subject) Lost() error                 { return s.trained.Lost() }

// OwnRows returns the rows of a batch that devices of this process read.
func (s subject) OwnRows(batch []array.Array) (rows []bool, err error) {
	defer fault.Recover("rows of a batch", &err)
	if x, ok := s.exec.(executor.RowReader); ok && s.c.Job != nil {
		return x.Rows(s.c.Job.Owns, executor.TypesOf(batch)...)
	}
	return nil, nil
}

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

// Load restores the engine from the newest valid checkpoint in dir, whatever strategy and number of devices
// wrote it.
func (e *Engine) Load(dir string) (*Resumed, error) { return e.LoadFrom(dir, ResumeConfig{}) }

// LoadFrom is like Load with a choice of checkpoint.
func (e *Engine) LoadFrom(dir string, c ResumeConfig) (*Resumed, error) {
	return e.trainer.ResumeFrom(dir, c)
}
