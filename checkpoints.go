package galley

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/runfacts"
	"github.com/galley-ml/galley/job"
)

// CheckpointConfig says where checkpoints are kept and how many.
type CheckpointConfig struct {
	// Dir is made if need be. One process at a time writes to it, or one Job: its processes write the files of
	// their own devices each, so it is on a file system that all of them see.
	Dir string
	Job *job.Job
	// Keep is how many stay, the newest; 0 means 3, less than 0 all. The best of those that were evaluated stays
	// besides.
	Keep int
	// KeepEvery, where set, lets those of all steps stay that it divides.
	KeepEvery int
}

// Checkpoints is a directory of checkpoints of one run. They are written in the background, under temporary
// names until they are complete and on disk.
type Checkpoints struct{ keeper *checkpoint.Keeper }

// OpenCheckpoints makes the directory ready for writing.
func OpenCheckpoints(c CheckpointConfig) (*Checkpoints, error) {
	k, err := fit.Checkpoints(c.Dir, c.Keep, c.KeepEvery, 0, c.Job.Peers())
	if err != nil {
		return nil, err
	}
	return &Checkpoints{k}, nil
}

// Wait returns when the last checkpoint is on disk, with its error if it is not.
func (c *Checkpoints) Wait(ctx context.Context) error { return c.keeper.Wait(ctx) }

// Rewind removes the checkpoints of all steps after one, so that a run can go on from there.
func (c *Checkpoints) Rewind(ctx context.Context, step int64) error {
	return c.keeper.Rewind(ctx, step)
}

// Steps returns the steps of the checkpoints in the directory, newest first.
func (c *Checkpoints) Steps(ctx context.Context) ([]int64, error) { return c.keeper.Steps(ctx) }

// Close waits and gives the directory up.
func (c *Checkpoints) Close() error { return c.keeper.Close() }

// Fact is one thing that makes a run what it is, such as its batch size. Checkpoints keep the facts of their
// run; Resume refuses one of another run, unless it is told what has changed.
type Fact = data.Fact

// OtherRunError is a checkpoint of a run that is not the one that would go on from it.
type OtherRunError = fit.OtherRunError

// facts returns those that the trainer was given, and its own.
func (t *Trainer) facts() []Fact {
	return runfacts.Of(slices.Concat(t.c.Facts, t.described), runfacts.Run{Optimizer: t.c.Optimizer,
		Schedule: t.c.Schedule, ClipNorm: t.c.ClipNorm, Seed: t.c.Seed})
}

// skippedScalar is what checkpoints call the number of steps that changed nothing.
const skippedScalar = "skipped_steps"

// The random streams. Random numbers are keyed by seed and counter, so these are all there is to know of
// them.
const (
	dataStream = "data" // samples that were dealt
	stepStream = "step" // steps that were taken
)

// Save begins a checkpoint of the state after the last step: it copies what training goes on to change, and
// writes in the background. sample is the global number of the next sample, which Resume returns. The error
// may be an earlier one's. A state that is not finite is refused.
func (t *Trainer) Save(ctx context.Context, c *Checkpoints, sample int64) error {
	return t.save(ctx, c.keeper, sample)
}

// save is like Save with further numbers.
func (t *Trainer) save(ctx context.Context, to *checkpoint.Keeper, sample int64,
	scalars ...checkpoint.Scalar) error {
	state, err := t.state(sample, scalars)
	if err != nil {
		return err
	}
	return to.Save(ctx, state)
}

// state returns the state after the last step, where it lies.
func (t *Trainer) state(sample int64, scalars []checkpoint.Scalar) (s checkpoint.State, err error) {
	if err := t.trained.Ready(); err != nil {
		return s, err
	}
	if s, err = t.exec.Save(); err != nil {
		return s, err
	}
	s.Step, s.Sample, s.Seed = int64(t.step), sample, t.c.Seed
	s.RNG = []checkpoint.Counter{{Name: dataStream, Value: uint64(sample)},
		{Name: stepStream, Value: uint64(t.step)}}
	s.Scalars = slices.Concat(s.Scalars, scalars, runfacts.Scalars(t.facts()))
	s.Scalars = append(s.Scalars, checkpoint.Int(skippedScalar, int64(t.skipped)))
	return s, nil
}

// Resumed is where a run goes on: from which checkpoint, after which step, with which sample.
type Resumed = fit.Resumed

// ResumeConfig says which checkpoint a run goes on from. The zero value is the newest good one.
type ResumeConfig = fit.ResumeConfig

// ErrNoCheckpoint is a directory without any: a fresh start is right.
var ErrNoCheckpoint = fit.ErrNoCheckpoint

// Resume brings the trainer to the newest good checkpoint in dir, whatever strategy and number of devices
// wrote it. It wraps ErrNoCheckpoint where there is none at all.
func (t *Trainer) Resume(dir string) (*Resumed, error) { return t.ResumeFrom(dir, ResumeConfig{}) }

// ResumeFrom is like Resume from a checkpoint of choice. One whose facts are others is an *OtherRunError.
func (t *Trainer) ResumeFrom(dir string, c ResumeConfig) (*Resumed, error) {
	r, err := openCheckpoint(dir, c.Step)
	if none, ok := errors.AsType[*checkpoint.NoneError](err); ok && len(none.Skipped) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrNoCheckpoint, err)
	}
	if err != nil {
		return nil, err
	}
	if err := t.c.Job.Same([]Fact{{Name: "checkpoint", Value: filepath.Base(r.Path())}}); err != nil {
		r.Close()
		return nil, err
	}
	out := &Resumed{
		From:    r.Path(),
		Step:    r.Meta().Step,
		Sample:  r.Meta().Sample,
		Changed: runfacts.Changes(t.facts(), r),
		Best:    math.NaN(),
	}
	if x, err := r.Meta().Float(fit.BestLoss); err == nil {
		out.Best = x
	}
	for _, e := range r.Skipped() {
		out.Skipped = append(out.Skipped, e)
	}
	if err := t.c.executor().Fits(r); err != nil {
		r.Close()
		return nil, fmt.Errorf("checkpoint %s: %w", r.Path(), err)
	}
	if err := runfacts.Same(t.facts(), r, c.Changed); err != nil {
		r.Close()
		return nil, err
	}
	if err := t.take(r); err != nil {
		r.Close()
		return nil, fmt.Errorf("checkpoint %s: %w", r.Path(), err)
	}
	return out, nil
}

// openCheckpoint opens the checkpoint of a step, or the newest for 0.
func openCheckpoint(dir string, step int64) (*checkpoint.Reader, error) {
	if step > 0 {
		return checkpoint.OpenStep(dir, step, checkpoint.OpenConfig{})
	}
	return checkpoint.Open(dir, checkpoint.OpenConfig{})
}

// take hands a checkpoint to the executor, which reads it now or when the step is planned.
func (t *Trainer) take(r *checkpoint.Reader) error {
	meta := r.Meta()
	if err := t.exec.Load(r); err != nil {
		return err
	}
	t.step, t.sample = int(meta.Step), meta.Sample
	if n, err := meta.Int(skippedScalar); err == nil {
		t.skipped = int(n)
	}
	t.trained.Loaded(t.step)
	return nil
}
