package galley

import (
	"context"
	"errors"
	"math"

	"github.com/galley-ml/galley/internal/checkpoint"
)

// SaverConfig says when a Saver writes.
type SaverConfig struct {
	// Every is how many steps lie between checkpoints; 0 writes only what is asked for.
	Every int
	// Failed, where set, is told at once why a checkpoint could not be written.
	Failed func(err error)
}

// Saver writes the checkpoints of a run while it goes on. One that cannot be written is told of and tried
// again, with the state after a later step; training does not end for it.
type Saver struct {
	t *Trainer
	c *Checkpoints
	SaverConfig
	// last is the step whose checkpoint was begun last, less than 0 for none. tries is how many in a row
	// could not be written; the next try is after step again.
	last, tries, again int
	// score is the loss of an evaluation after step scored, best the least of all.
	score, best float64
	scored      int
}

// NewSaver makes a saver of a trainer's state.
func NewSaver(t *Trainer, to *Checkpoints, c SaverConfig) *Saver {
	return &Saver{t: t, c: to, SaverConfig: c, last: -1, scored: -1, best: math.Inf(1)}
}

// Resumed tells the saver that the trainer's state is a checkpoint's.
func (s *Saver) Resumed(r *Resumed) {
	s.last = int(r.Step)
	if !math.IsNaN(r.Best) {
		s.best = r.Best
	}
}

// Evaluated tells the saver the loss of an evaluation after the last step, and whether it is the least so
// far. The checkpoint of that step has it, and the one with the least is kept.
func (s *Saver) Evaluated(loss float64) (best bool) {
	s.score, s.scored = loss, s.t.Steps()
	if best = loss < s.best; best {
		s.best = loss
	}
	return best
}

// Due reports, after a step, whether it is time for a checkpoint, or whether one before could not be written.
func (s *Saver) Due() bool {
	s.look()
	step := s.t.Steps()
	return s.Every > 0 && step%s.Every == 0 || s.tries > 0 && step >= s.again
}

// After is called after every step: it writes a checkpoint if one is due. sample is the number of the next
// sample. The error is one that ends training.
func (s *Saver) After(ctx context.Context, sample int64) (saved bool, err error) {
	if !s.Due() {
		return false, nil
	}
	return s.Save(ctx, sample)
}

// look asks how the last checkpoint has fared.
func (s *Saver) look() {
	if s.busy() {
		return
	}
	switch done, err := s.c.keeper.Outcome(); {
	case err != nil:
		s.failed(err)
	case done && s.last >= 0:
		s.tries = 0
	}
}

// busy reports whether a process of the job still writes: all learn of an outcome after the same step.
func (s *Saver) busy() bool {
	if s.t.c.Job.Size() == 1 {
		return false
	}
	writes := 0
	if s.c.keeper.Busy() {
		writes = 1
	}
	any, err := s.t.c.Job.Max(writes)
	return err != nil || any > 0
}

// failed tells of a checkpoint that could not be written, and chooses when to try again: at once, then after
// 1, 2, 4 … steps.
func (s *Saver) failed(err error) {
	if s.Failed != nil {
		s.Failed(err)
	}
	if e, ok := errors.AsType[*checkpoint.SaveError](err); ok && e.Saved {
		return
	}
	s.last, s.again = -1, s.t.Steps()
	if s.tries++; s.tries > 1 {
		s.again += min(1<<min(s.tries-2, 20), max(s.Every, 1))
	}
}

// Save begins a checkpoint of the last step, unless there is one. It is not cancelled: steps that were taken
// are kept.
func (s *Saver) Save(ctx context.Context, sample int64) (saved bool, err error) {
	step := s.t.Steps()
	if s.last == step {
		return false, nil
	}
	var scalars []checkpoint.Scalar
	if s.scored == step {
		scalars = append(scalars, checkpoint.Float(scoreScalar, s.score))
	}
	if !math.IsInf(s.best, 1) {
		scalars = append(scalars, checkpoint.Float(bestScalar, s.best))
	}
	err = s.t.save(context.WithoutCancel(ctx), s.c, sample, scalars...)
	if _, earlier := errors.AsType[*checkpoint.SaveError](err); earlier {
		s.failed(err)
		return false, nil
	}
	if err == nil {
		s.last = step
	}
	return err == nil, err
}

// lastTries is how often the state at the end of a run is tried to be written.
const lastTries = 3

// Finish writes a checkpoint of the last step, unless there is one, and returns when it is on disk.
func (s *Saver) Finish(ctx context.Context, sample int64) (saved bool, err error) {
	for range lastTries {
		s.look()
		began, e := s.Save(ctx, sample)
		if err = e; err != nil {
			return saved, err
		}
		saved = saved || began
		if err = s.c.keeper.Wait(context.WithoutCancel(ctx)); err == nil && s.last == s.t.Steps() {
			return saved, nil
		}
		if err != nil {
			s.failed(err)
		}
		if e, ok := errors.AsType[*checkpoint.SaveError](err); ok && e.Saved {
			return saved, nil
		}
	}
	return false, err
}

// Save writes a checkpoint of the engine's state to dir and returns when it is on disk.
func (e *Engine) Save(ctx context.Context, dir string) (err error) {
	c, err := OpenCheckpoints(CheckpointConfig{Dir: dir, Job: e.config.Job})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := e.trainer.Save(ctx, c, e.sample); err != nil {
		return err
	}
	return c.Wait(ctx)
}

// Load brings the engine to the newest good checkpoint in dir, whatever strategy and number of devices wrote
// it.
func (e *Engine) Load(dir string) (*Resumed, error) { return e.LoadFrom(dir, ResumeConfig{}) }

// LoadFrom is Load from a checkpoint of choice.
func (e *Engine) LoadFrom(dir string, c ResumeConfig) (*Resumed, error) {
	r, err := e.trainer.ResumeFrom(dir, c)
	if err == nil {
		e.sample = r.Sample
	}
	return r, err
}
