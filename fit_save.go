package galley

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// open makes the directory of checkpoints ready, and brings the engine to the newest where it resumes.
func (f *fit) open() error {
	if d, ok := f.train.(Described); ok {
		f.e.trainer.described = d.Facts()
	}
	if f.c.SaveDir == "" {
		return nil
	}
	var resumed *Resumed
	if f.c.Resume {
		r, err := f.e.LoadFrom(f.c.SaveDir, ResumeConfig{Step: f.c.From, Changed: f.c.Changed})
		switch {
		case errors.Is(err, ErrNoCheckpoint) && f.c.From == 0:
		case err != nil:
			return fmt.Errorf("fit: resume: %w", err)
		default:
			resumed, f.p.Saved = r, r.From
		}
	}
	var err error
	f.dir, err = OpenCheckpoints(CheckpointConfig{Dir: f.c.SaveDir, Job: f.e.config.Job, Keep: f.c.Keep,
		KeepEvery: f.c.KeepEvery})
	if err != nil {
		return err
	}
	every := f.c.SaveEvery
	if every == 0 {
		every = f.train.Len()
	}
	f.saver = NewSaver(f.e.trainer, f.dir, SaverConfig{Every: every, Failed: f.failed})
	if resumed == nil {
		return nil
	}
	f.saver.Resumed(resumed)
	f.seek(resumed)
	if f.c.From > 0 {
		return f.dir.Rewind(context.Background(), f.c.From)
	}
	return nil
}

// seek has a run whose batches have changed go on with the sample that is next, and not with the batch that
// is.
func (f *fit) seek(r *Resumed) {
	changed := slices.ContainsFunc(r.Changed, func(d Difference) bool { return d.Name == "batch" })
	if !changed {
		return
	}
	if b, err := f.train.Batch(0); err == nil && len(b) > 0 && len(b[0].Shape()) > 0 && b[0].Shape()[0] > 0 {
		f.ahead = int(r.Sample)/b[0].Shape()[0] - int(r.Step)
	}
}

// failed tells of a checkpoint that could not be written.
func (f *fit) failed(err error) {
	f.p.History.SaveErrors = append(f.p.History.SaveErrors, err)
	for _, c := range f.calls {
		if x, ok := c.(SaveFailer); ok {
			x.OnSaveFailed(&f.p, err)
		}
	}
}

// save looks after checkpoints after a step.
func (f *fit) save(ctx context.Context) error {
	if f.saver == nil {
		return nil
	}
	return f.told(f.saver.After(ctx, f.e.sample))
}

// told tells callbacks of a checkpoint that was begun.
func (f *fit) told(saved bool, err error) error {
	if err != nil {
		return fmt.Errorf("fit: save: %w", err)
	}
	if !saved {
		return nil
	}
	f.p.Saved = f.c.SaveDir
	return f.tell(Callback.OnSave)
}

// finish saves the last state and waits until it is on disk, however training ended: nothing that was learned
// is lost. A state that has diverged, or that a failed step has torn, is not worth it.
func (f *fit) finish(ctx context.Context, ended error) error {
	if f.saver == nil {
		return nil
	}
	_, diverged := errors.AsType[*DivergedError](ended)
	if diverged || f.e.trainer.trained.lost != nil || len(f.p.History.Steps) == 0 {
		return f.dir.Close()
	}
	err := f.told(f.saver.Finish(ctx, f.e.sample))
	if errors.Is(err, ErrStop) {
		err = nil
	}
	return errors.Join(err, f.dir.Close())
}
