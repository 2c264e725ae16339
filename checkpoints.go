package galley

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/runfacts"
	"github.com/galley-ml/galley/job"
)

// CheckpointConfig configures where checkpoints are written and how many are kept.
type CheckpointConfig struct {
	// Dir is created if it does not exist. Only one process, or one Job, may write to it at a time. The
	// processes of a job each write the shards of their own devices, so Dir must be on a file system that all
	// of them share.
	Dir string
	Job *job.Job
	// Keep is the number of most recent checkpoints to keep; 0 means 3, negative means all. The best
	// evaluated checkpoint is kept in addition.
	Keep int
	// KeepEvery, if set, also keeps every checkpoint whose step is a multiple of it.
	KeepEvery int
}

// Checkpoints is a directory of checkpoints of one run. They are written in the background, under a temporary
// name until they are complete and synced to disk.
type Checkpoints struct{ keeper *checkpoint.Keeper }

// OpenCheckpoints opens a directory for writing checkpoints.
func OpenCheckpoints(c CheckpointConfig) (*Checkpoints, error) {
	k, err := fit.Checkpoints(c.Dir, c.Keep, c.KeepEvery, 0, c.Job.Peers())
	if err != nil {
		return nil, err
	}
	return &Checkpoints{k}, nil
}

// Wait blocks until the last checkpoint is on disk and returns its error, if any.
func (c *Checkpoints) Wait(ctx context.Context) error { return c.keeper.Wait(ctx) }

// Rewind deletes all checkpoints after a step, so that a run can continue from there.
func (c *Checkpoints) Rewind(ctx context.Context, step int64) error {
	return c.keeper.Rewind(ctx, step)
}

// Steps returns the steps of the checkpoints in the directory, newest first.
func (c *Checkpoints) Steps(ctx context.Context) ([]int64, error) { return c.keeper.Steps(ctx) }

// Close waits for the last checkpoint and releases the directory.
func (c *Checkpoints) Close() error { return c.keeper.Close() }

// OtherRunError is returned when a checkpoint belongs to a run with different facts.
type OtherRunError = fit.OtherRunError

// skippedScalar is the checkpoint key for the number of steps that were skipped because gradients overflowed.
const skippedScalar = "skipped_steps"

// The random streams. Random numbers are a function of seed and counter, so the counters are their whole
// state.
const (
	dataStream = "data" // samples read so far
	stepStream = "step" // steps taken so far
)

// Save starts a checkpoint of the state after the last step: it copies the state and writes it in the
// background. sample is the global index of the next sample, which Resume returns. The returned error may be
// that of an earlier checkpoint. A state with NaN or infinite values is refused.
func (t *Trainer) Save(ctx context.Context, c *Checkpoints, sample int64) error {
	return t.save(ctx, c.keeper, sample)
}

// save is like Save and stores additional scalars.
func (t *Trainer) save(ctx context.Context, to *checkpoint.Keeper, sample int64,
	scalars ...checkpoint.Scalar) error {
	state, err := t.state(sample, scalars)
	if err != nil {
		return err
	}
	return to.Save(ctx, state)
}

// state returns the state after the last step without gathering it: each tensor stays where it is stored.
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

// Resumed describes where a run continues: the checkpoint, its step and the next sample.
type Resumed = fit.Resumed

// ResumeConfig selects the checkpoint to resume from. The zero value selects the newest valid one.
type ResumeConfig = fit.ResumeConfig

// ErrNoCheckpoint is returned for a directory without checkpoints: start from scratch.
var ErrNoCheckpoint = fit.ErrNoCheckpoint

// Resume restores the trainer from the newest valid checkpoint in dir, whatever strategy and number of
// devices wrote it. The error wraps ErrNoCheckpoint if there is none.
func (t *Trainer) Resume(dir string) (*Resumed, error) { return t.ResumeFrom(dir, ResumeConfig{}) }

// ResumeFrom is like Resume with a choice of checkpoint. It returns an *OtherRunError if the facts of the run
// differ.
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
	if err := t.restore(r); err != nil {
		r.Close()
		return nil, fmt.Errorf("checkpoint %s: %w", r.Path(), err)
	}
	return out, nil
}

// openCheckpoint opens the checkpoint of a step, or the newest one for step 0.
func openCheckpoint(dir string, step int64) (*checkpoint.Reader, error) {
	if step > 0 {
		return checkpoint.OpenStep(dir, step, checkpoint.OpenConfig{})
	}
	return checkpoint.Open(dir, checkpoint.OpenConfig{})
}

// take passes a checkpoint to the executor, which reads it now or when the step has been planned.
func (t *Trainer) restore(r *checkpoint.Reader) error {
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
