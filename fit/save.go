package fit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/checkpoint"
)

// Checkpoints opens a directory for the checkpoints of a run. Kept are the newest (keep), those of steps that
// are multiples of every, and the best evaluated one. epoch is Config.Fence; peers, if set, are the processes
// that write together.
func Checkpoints(dir string, keep, every, epoch int, peers checkpoint.Peers) (*checkpoint.Keeper, error) {
	return checkpoint.NewKeeper(
		checkpoint.Config{Dir: dir, Keep: keep, KeepEvery: int64(every), KeepBest: ValidLoss,
			Finite: true, Peers: peers, Epoch: epoch},
	)
}

// open opens the directory of checkpoints and resumes from the newest one if Config.Resume is set.
func (f *fit) open() error {
	if d, ok := f.train.(Described); ok {
		f.t.Describe(d.Facts())
	}
	resumed, err := f.resume()
	if err != nil || f.c.SaveDir == "" {
		return err
	}
	f.keeper, err = Checkpoints(f.c.SaveDir, f.c.Keep, f.c.KeepEvery, f.c.Fence, f.t.Peers())
	if err != nil {
		return err
	}
	every := f.c.SaveEvery
	if every == 0 {
		every = f.train.Len()
	}
	f.saver = newSaver(f.t, f.keeper, saverConfig{every: every, failed: f.failed})
	if resumed == nil {
		return nil
	}
	f.saver.resumed(resumed)
	f.seek(resumed)
	if f.c.From > 0 {
		return f.keeper.Rewind(context.Background(), f.c.From)
	}
	return nil
}

// resume restores the checkpoint that the run continues from and returns it; nil for a fresh start.
func (f *fit) resume() (*Resumed, error) {
	if !f.c.Resume {
		return nil, nil
	}
	dir := f.c.ResumeDir
	if dir == "" {
		dir = f.c.SaveDir
	}
	r, err := f.t.Resume(dir, ResumeConfig{Step: f.c.From, Changed: f.c.Changed})
	switch {
	case errors.Is(err, ErrNoCheckpoint) && f.c.From == 0:
		return nil, nil
	case err != nil:
		return nil, &ResumeError{err}
	}
	f.p.Saved, f.p.Resumed = r.From, r
	return r, nil
}

// seek makes a run whose batch size has changed continue with the next sample rather than the next batch.
func (f *fit) seek(r *Resumed) {
	changed := slices.ContainsFunc(r.Changed, func(d Difference) bool { return d.Name == "batch" })
	if !changed {
		return
	}
	if b, err := f.train.Batch(0); err == nil && len(b) > 0 && len(b[0].Shape()) > 0 && b[0].Shape()[0] > 0 {
		f.ahead = int(r.Sample)/b[0].Shape()[0] - int(r.Step)
	}
}

// failed reports a checkpoint that could not be written.
func (f *fit) failed(err error) {
	f.p.History.SaveErrors = append(f.p.History.SaveErrors, err)
	for _, c := range f.calls {
		if x, ok := c.(SaveFailer); ok {
			x.OnSaveFailed(&f.p, err)
		}
	}
}

// save writes a checkpoint after a step if one is due.
func (f *fit) save(ctx context.Context) error {
	if f.saver == nil {
		return nil
	}
	return f.notifySave(f.saver.after(ctx))
}

// notifySave calls OnSave for a checkpoint that was started.
func (f *fit) notifySave(saved bool, err error) error {
	if err != nil {
		return fmt.Errorf("fit: save: %w", err)
	}
	if !saved {
		return nil
	}
	f.p.Saved = f.c.SaveDir
	return f.notify(Callback.OnSave)
}

// finish saves the final state and waits until it is on disk, however training ended, so that no progress is
// lost. A state that has diverged, or that a failed step left inconsistent, is not saved.
func (f *fit) finish(ctx context.Context, ended error) error {
	if f.saver == nil {
		return nil
	}
	_, diverged := errors.AsType[*DivergedError](ended)
	if diverged || f.t.Lost() != nil || len(f.p.History.Steps) == 0 {
		return f.keeper.Close()
	}
	err := f.notifySave(f.saver.finish(ctx))
	if errors.Is(err, ErrStop) {
		err = nil
	}
	return errors.Join(err, f.keeper.Close())
}

// stateDue reports whether a callback wants the state after a step.
func (f *fit) stateDue(step int) bool {
	for _, c := range f.calls {
		if x, ok := c.(StateWatcher); ok && x.StateDue(step) {
			return true
		}
	}
	return false
}

// showState passes the state after a step to the callbacks that want it.
func (f *fit) showState(step int) error {
	for _, c := range f.calls {
		x, ok := c.(StateWatcher)
		if !ok || !x.StateDue(step) {
			continue
		}
		s, err := f.t.State(f.saver.scalars()...)
		if err == nil {
			err = x.OnState(&f.p, s)
		}
		if err != nil {
			return f.agree(err)
		}
	}
	return nil
}
