package fit

import (
	"context"
	"errors"
	"math"

	"github.com/galley-ml/galley/internal/checkpoint"
)

// Names of numbers that checkpoints hold: the loss of an evaluation after the step, and the least of all so
// far.
const (
	ValidLoss = "valid_loss"
	BestLoss  = "best_valid_loss"
)

// saverConfig says when a saver writes.
type saverConfig struct {
	// every is how many steps are between checkpoints; 0 writes only what is asked for.
	every int
	// failed is told at once why a checkpoint could not be written.
	failed func(err error)
}

// saver writes the checkpoints of a run while it continues. One that cannot be written is told of and tried
// again, with the state after a later step; training does not end for it.
type saver struct {
	t Subject
	c *checkpoint.Keeper
	saverConfig
	// last is the step whose checkpoint was begun last, less than 0 for none. tries is how many in a row
	// could not be written; the next try is after step again.
	last, tries, again int
	// score is the loss of an evaluation after step scored, best the least of all.
	score, best float64
	scored      int
}

// newSaver makes a saver of a trainer's state.
func newSaver(t Subject, to *checkpoint.Keeper, c saverConfig) *saver {
	return &saver{t: t, c: to, saverConfig: c, last: -1, scored: -1, best: math.Inf(1)}
}

// resumed tells the saver that the trainer's state is a checkpoint's.
func (s *saver) resumed(r *Resumed) {
	s.last = int(r.Step)
	if !math.IsNaN(r.Best) {
		s.best = r.Best
	}
}

// evaluated tells the saver the loss of an evaluation after the last step, and whether it is the least so
// far. The checkpoint of that step has it, and the one with the least is kept.
func (s *saver) evaluated(loss float64) (best bool) {
	s.score, s.scored = loss, s.t.Steps()
	if best = loss < s.best; best {
		s.best = loss
	}
	return best
}

// due reports, after a step, whether it is time for a checkpoint, or whether one before could not be written.
func (s *saver) due() bool {
	s.look()
	step := s.t.Steps()
	return s.every > 0 && step%s.every == 0 || s.tries > 0 && step >= s.again
}

// after is called after every step: it writes a checkpoint if one is due. The error is one that ends
// training.
func (s *saver) after(ctx context.Context) (saved bool, err error) {
	if !s.due() {
		return false, nil
	}
	return s.save(ctx)
}

// look asks how the last checkpoint has fared.
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

// busy reports whether a process of the job still writes: all learn of an outcome after the same step.
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

// notSaved reports a checkpoint that could not be written, and chooses when to try again: at once, then after
// 1, 2, 4 … steps.
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

// save begins a checkpoint of the last step, unless there is one. It is not cancelled: steps that were taken
// are kept.
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

// scalars returns the losses of evaluations so far; a nil saver knows of none.
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

// lastTries is how often the state at the end of a run is tried to be written.
const lastTries = 3

// finish writes a checkpoint of the last step, unless there is one, and returns when it is on disk.
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
