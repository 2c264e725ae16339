package fit

import (
	"context"
	"errors"
	"math"

	"github.com/galley-ml/galley/internal/checkpoint"
)

// The checkpoint keys of the validation loss after the step, and of the lowest so far.
const (
	ValidLoss = "valid_loss"
	BestLoss  = "best_valid_loss"
)

// saverConfig configures when a saver writes.
type saverConfig struct {
	// every is the number of steps between checkpoints; 0 writes only on request.
	every int
	// failed is called immediately when a checkpoint could not be written.
	failed func(err error)
}

// saver writes the checkpoints of a run in progress. A failed checkpoint is reported and retried with the
// state after a later step; it does not end training.
type saver struct {
	t Subject
	c *checkpoint.Keeper
	saverConfig
	// last is the step of the latest checkpoint that was started, negative for none. tries counts consecutive
	// failures; the next attempt is after step again.
	last, tries, again int
	// score is the validation loss after step scored, best the lowest of all.
	score, best float64
	scored      int
}

// newSaver creates a saver of a trainer's state.
func newSaver(t Subject, to *checkpoint.Keeper, c saverConfig) *saver {
	return &saver{t: t, c: to, saverConfig: c, last: -1, scored: -1, best: math.Inf(1)}
}

// resumed records that the trainer's state was restored from a checkpoint.
func (s *saver) resumed(r *Resumed) {
	s.last = int(r.Step)
	if !math.IsNaN(r.Best) {
		s.best = r.Best
	}
}

// evaluated records the validation loss after the last step and whether it is the lowest so far. The
// checkpoint of that step stores it, and the best one is kept.
func (s *saver) evaluated(loss float64) (best bool) {
	s.score, s.scored = loss, s.t.Steps()
	if best = loss < s.best; best {
		s.best = loss
	}
	return best
}

// due reports, after a step, whether a checkpoint or a retry is due.
func (s *saver) due() bool {
	s.look()
	step := s.t.Steps()
	return s.every > 0 && step%s.every == 0 || s.tries > 0 && step >= s.again
}

// after is called after every step and writes a checkpoint if one is due. Its error ends training.
func (s *saver) after(ctx context.Context) (saved bool, err error) {
	if !s.due() {
		return false, nil
	}
	return s.save(ctx)
}

// look checks whether the last checkpoint succeeded.
func (s *saver) look() {
	if s.busy() {
		return
	}
	switch done, err := s.c.Outcome(); {
	case err != nil:
		s.notSaved(err)
	case done && s.last >= 0:
		s.tries = 0
	}
}

// busy reports whether any process of the job is still writing, so that all see an outcome after the same
// step.
func (s *saver) busy() bool {
	if s.t.Peers() == nil {
		return false
	}
	writes := 0
	if s.c.Busy() {
		writes = 1
	}
	any, err := s.t.Agree(writes)
	return err != nil || any > 0
}

// notSaved reports a failed checkpoint and schedules the retry: immediately, then after 1, 2, 4 … steps.
func (s *saver) notSaved(err error) {
	s.failed(err)
	if e, ok := errors.AsType[*checkpoint.SaveError](err); ok && e.Saved {
		return
	}
	s.last, s.again = -1, s.t.Steps()
	if s.tries++; s.tries > 1 {
		s.again += min(1<<min(s.tries-2, 20), max(s.every, 1))
	}
}

// save starts a checkpoint of the last step unless there is one. It is not cancelled with the context, so
// that steps that were taken are kept.
func (s *saver) save(ctx context.Context) (saved bool, err error) {
	step := s.t.Steps()
	if s.last == step {
		return false, nil
	}
	err = s.t.Write(context.WithoutCancel(ctx), s.c, s.scalars()...)
	if _, earlier := errors.AsType[*checkpoint.SaveError](err); earlier {
		s.notSaved(err)
		return false, nil
	}
	if err == nil {
		s.last = step
	}
	return err == nil, err
}

// scalars returns the validation losses so far; a nil saver has none.
func (s *saver) scalars() (list []checkpoint.Scalar) {
	if s == nil {
		return nil
	}
	if s.scored == s.t.Steps() {
		list = append(list, checkpoint.Float(ValidLoss, s.score))
	}
	if !math.IsInf(s.best, 1) {
		list = append(list, checkpoint.Float(BestLoss, s.best))
	}
	return list
}

// lastTries is the number of attempts to write the final state.
const lastTries = 3

// finish writes a checkpoint of the last step unless there is one, and returns when it is on disk.
func (s *saver) finish(ctx context.Context) (saved bool, err error) {
	for range lastTries {
		s.look()
		began, e := s.save(ctx)
		if err = e; err != nil {
			return saved, err
		}
		saved = saved || began
		if err = s.c.Wait(context.WithoutCancel(ctx)); err == nil && s.last == s.t.Steps() {
			return saved, nil
		}
		if err != nil {
			s.notSaved(err)
		}
		if e, ok := errors.AsType[*checkpoint.SaveError](err); ok && e.Saved {
			return saved, nil
		}
	}
	return false, err
}
