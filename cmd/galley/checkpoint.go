package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/galley-ml/galley"
)

// checkpointFlags say where a run's checkpoints are, how often they are written and where a run goes on.
type checkpointFlags struct {
	Checkpoint string   `help:"Directory for checkpoints. If it holds some, training goes on from the newest good one, whatever devices wrote it." type:"path" placeholder:"DIR"`
	Every      int      `help:"Steps between checkpoints; there is always one of the last step." default:"100"`
	Keep       int      `help:"Checkpoints that stay, the newest; the one with the least held-out loss stays besides." default:"3"`
	KeepEvery  int      `help:"Checkpoints of all steps that this divides stay, too; 0 is none." placeholder:"STEPS"`
	From       int64    `help:"Go on from the checkpoint of this step in place of the newest; with --rewind where there are later ones." placeholder:"STEP"`
	Rewind     bool     `help:"Remove the checkpoints after --from; without it, the newest one, and go on from the one before."`
	Changed    []string `help:"What is meant to be other than in the run that wrote the checkpoint: model, data, tokenizer, batch, seq, order, seed, optimizer, schedule, clip; or all." placeholder:"NAME"`
	LogLosses  bool     `help:"Print every step's loss and gradient norm in full precision."`
}

// validateCheckpoints checks what can be without looking at the directory.
func (f checkpointFlags) validateCheckpoints() error {
	if f.Checkpoint == "" {
		if f.From != 0 || f.Rewind || len(f.Changed) > 0 || f.KeepEvery != 0 {
			return fmt.Errorf("--from, --rewind, --changed, --keep-every: they are for --checkpoint=DIR")
		}
		return nil
	}
	if f.From < 0 {
		return fmt.Errorf("--from=%d: want the step of a checkpoint", f.From)
	}
	if err := natural(map[string]int{"keep-every": f.KeepEvery}); err != nil {
		return err
	}
	return positive(map[string]int{"every": f.Every, "keep": f.Keep})
}

// saver writes checkpoints of one run; without a directory it does nothing.
type saver struct {
	c   *galley.Checkpoints
	s   *galley.Saver
	dir string
	// sample is the number of the next sample.
	sample int64
}

// checkpoints makes the directory ready and brings the trainer to the checkpoint that it goes on from.
func (f checkpointFlags) checkpoints(t *galley.Trainer) (*saver, error) {
	if f.Checkpoint == "" {
		return &saver{}, nil
	}
	s, err := f.openCheckpoints(t)
	if err != nil {
		return nil, fmt.Errorf("--checkpoint: %w", err)
	}
	return s, nil
}

func (f checkpointFlags) openCheckpoints(t *galley.Trainer) (*saver, error) {
	c, err := galley.OpenCheckpoints(galley.CheckpointConfig{Dir: f.Checkpoint, Job: job, Keep: f.Keep,
		KeepEvery: f.KeepEvery})
	if err != nil {
		return nil, err
	}
	s := &saver{c: c, dir: f.Checkpoint}
	s.s = galley.NewSaver(t, c, galley.SaverConfig{Every: f.Every, Failed: func(err error) {
		fmt.Fprintln(os.Stderr, "galley: going on:", err)
	}})
	if err := f.resume(t, s); err != nil {
		c.Close()
		return nil, err
	}
	return s, nil
}

// resume brings the trainer to the newest good checkpoint, or to that of --from.
func (f checkpointFlags) resume(t *galley.Trainer, s *saver) error {
	from, err := f.fromStep(s.c)
	if err != nil {
		return err
	}
	r, err := t.ResumeFrom(f.Checkpoint, galley.ResumeConfig{Step: from, Changed: f.Changed})
	if errors.Is(err, galley.ErrNoCheckpoint) && from == 0 {
		return nil
	}
	if other, ok := errors.AsType[*galley.OtherRunError](err); ok {
		return otherRun(other)
	}
	if err != nil {
		return err
	}
	for _, bad := range r.Skipped {
		fmt.Fprintln(os.Stderr, "galley: passed over:", bad)
	}
	if from > 0 {
		if err := s.c.Rewind(context.Background(), from); err != nil {
			return err
		}
	}
	s.s.Resumed(r)
	s.sample = r.Sample
	fmt.Printf("going on after %d steps from %s\n", r.Step, r.From)
	for _, d := range r.Changed {
		fmt.Printf("%s is %s, and was %s\n", d.Name, d.Given, d.Saved)
	}
	return nil
}

// otherRun is a checkpoint of another run in the command's words.
func otherRun(e *galley.OtherRunError) error {
	text, names := "", ""
	for i, d := range e.Differences {
		if i > 0 {
			text, names = text+"; ", names+","
		}
		text, names = text+fmt.Sprintf("%s is %s, and was %s", d.Name, d.Given, d.Saved), names+d.Name
	}
	return fmt.Errorf("%s is of another run: %s: give what it had, or --changed=%s, or another directory",
		filepath.Base(e.From), text, names)
}

// fromStep is the step to go on from: 0 for the newest.
func (f checkpointFlags) fromStep(c *galley.Checkpoints) (int64, error) {
	if f.From == 0 && !f.Rewind {
		return 0, nil
	}
	steps, err := c.Steps(context.Background())
	if err != nil {
		return 0, err
	}
	switch {
	case f.From == 0 && len(steps) < 2:
		return 0, fmt.Errorf("--rewind: %s has checkpoints of steps %v: want two or more, or --from",
			f.Checkpoint, steps)
	case f.From == 0:
		return steps[1], nil
	case len(steps) > 0 && steps[0] > f.From && !f.Rewind:
		return 0, fmt.Errorf("--from=%d: %s has later checkpoints, of steps %v: --rewind removes them",
			f.From, f.Checkpoint, steps)
	}
	return f.From, nil
}

// due reports whether it is time for a checkpoint.
func (s *saver) due() bool { return s.c != nil && s.s.Due() }

// save begins one of the last step, unless there is one.
func (s *saver) save(ctx context.Context) error {
	if s.c == nil {
		return nil
	}
	_, err := s.s.Save(ctx, s.sample)
	return err
}

// evaluated tells of the loss on held-out text after the last step; the state with the least so far is saved.
func (s *saver) evaluated(loss float64) error {
	if s.c == nil || !s.s.Evaluated(loss) {
		return nil
	}
	return s.save(context.Background())
}

// finish writes the last state and waits for it. One that has diverged is not worth it.
func (s *saver) finish(ctx context.Context, ended error) error {
	if s.c == nil {
		return ended
	}
	if _, ok := errors.AsType[*galley.DivergedError](ended); ok {
		return s.diverged(ended)
	}
	if _, err := s.s.Finish(ctx, s.sample); err != nil {
		return errors.Join(ended, err)
	}
	return ended
}

// diverged says where a run that has diverged can go on.
func (s *saver) diverged(err error) error {
	steps, e := s.c.Steps(context.Background())
	if e != nil || len(steps) == 0 {
		return err
	}
	return fmt.Errorf("%w: the checkpoint of step %d is from before: run it again, with --rewind for the one before that", err, steps[0])
}

func (s *saver) close() {
	if s.c != nil {
		s.c.Close()
	}
}
