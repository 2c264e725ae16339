package galley

import (
	"context"
	"errors"
	"fmt"
)

// saver writes a fit's checkpoints.
type saver struct {
	dir  *Checkpoints
	last int // the step that was saved last
}

// open makes the directory of checkpoints ready, and brings the engine to the newest where it resumes.
func (f *fit) open() error {
	if f.c.SaveDir == "" {
		return nil
	}
	f.saver.last = -1
	if f.c.Resume {
		r, err := f.e.Load(f.c.SaveDir)
		switch {
		case errors.Is(err, ErrNoCheckpoint):
		case err != nil:
			return fmt.Errorf("fit: resume: %w", err)
		default:
			f.saver.last, f.p.Saved = int(r.Step), r.From
		}
	}
	var err error
	f.saver.dir, err = OpenCheckpoints(CheckpointConfig{Dir: f.c.SaveDir, Keep: f.c.Keep})
	return err
}

// save begins a checkpoint of the last step, unless there is one. It is not cancelled: steps that were taken are kept.
func (f *fit) save(ctx context.Context) error {
	p := &f.p
	if f.saver.dir == nil || f.saver.last == p.Step {
		return nil
	}
	if err := f.e.trainer.Save(context.WithoutCancel(ctx), f.saver.dir, f.e.sample); err != nil {
		return fmt.Errorf("fit: save: %w", err)
	}
	f.saver.last, p.Saved = p.Step, f.c.SaveDir
	return f.tell(Callback.OnSave)
}

// stopped is what ends a fit early. Where that is the context or a callback, the steps since the last checkpoint are saved, so
// that nothing is lost.
func (f *fit) stopped(ctx context.Context, err error) error {
	if !errors.Is(err, ErrStop) && ctx.Err() == nil || len(f.p.History.Steps) == 0 {
		return err
	}
	if saved := f.save(ctx); saved != nil && !errors.Is(saved, ErrStop) {
		return errors.Join(err, saved)
	}
	return err
}

// close waits until the last checkpoint is on disk.
func (s *saver) close() error {
	if s.dir == nil {
		return nil
	}
	if err := s.dir.Close(); err != nil {
		return fmt.Errorf("fit: save: %w", err)
	}
	return nil
}

// Save writes a checkpoint of the engine's state to dir and returns when it is on disk.
func (e *Engine) Save(ctx context.Context, dir string) (err error) {
	c, err := OpenCheckpoints(CheckpointConfig{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := e.trainer.Save(ctx, c, e.sample); err != nil {
		return err
	}
	return c.Wait(ctx)
}

// Load brings the engine to the newest good checkpoint in dir, whatever strategy and number of devices wrote it.
func (e *Engine) Load(dir string) (*Resumed, error) {
	r, err := e.trainer.Resume(dir)
	if err == nil {
		e.sample = r.Sample
	}
	return r, err
}
