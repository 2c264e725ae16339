package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/fit"
)

// checkpointFlags choose a run's checkpoint directory, how often it saves and where it resumes.
type checkpointFlags struct {
	Checkpoint string   `help:"Directory for checkpoints. If it holds some, training goes on from the newest good one, whatever devices wrote it." type:"path" placeholder:"DIR"`
	Every      int      `help:"Steps between checkpoints; there is always one of the last step." default:"100"`
	Keep       int      `help:"Checkpoints that stay, the newest; the one with the least held-out loss stays besides." default:"3"`
	KeepEvery  int      `help:"Checkpoints of all steps that this divides stay, too; 0 is none." placeholder:"STEPS"`
	From       int64    `help:"Go on from the checkpoint of this step in place of the newest; with --rewind where there are later ones." placeholder:"STEP"`
	Rewind     bool     `help:"Remove the checkpoints after --from; without it, the newest one, and go on from the one before."`
	Changed    []string `help:"What may differ from the run that wrote the checkpoint: model, data, tokenizer, batch, seq, order, seed, optimizer, schedule, clip, losses; or all." placeholder:"NAME"`
	LogLosses  bool     `help:"Print every step's loss and gradient norm in full precision."`
	LogRouters int      `help:"Steps between entries of --log with the load of each expert of a mixture, 1 for every step; each takes another forward pass. 0 is at evaluations only." placeholder:"STEPS"`
	LogSamples bool     `help:"Print a hash of each sample of every step, by which runs compare that were stopped or ran on other devices."`
}

// validateCheckpoints checks the flags as far as possible without looking at the directory.
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

// printResumed prints where a run resumes, and what differs from the run that wrote the checkpoint.
func (f checkpointFlags) printResumed(r *galley.Resumed) {
	if r == nil {
		return
	}
	for _, bad := range r.Skipped {
		fmt.Fprintln(os.Stderr, "galley: passed over:", bad)
	}
	fmt.Printf("going on after %d steps from %s\n", r.Step, r.From)
	for _, d := range r.Changed {
		fmt.Printf("%s is %s, and was %s\n", d.Name, d.Given, d.Saved)
	}
}

// notBegun returns the error of a run that did not start, in terms of its flags.
func (f checkpointFlags) notBegun(err error) error {
	if other, ok := errors.AsType[*galley.OtherRunError](err); ok {
		err = otherRun(other)
	}
	if f.Checkpoint == "" {
		return err
	}
	if r, ok := errors.AsType[*fit.ResumeError](err); ok {
		err = r.Err
	}
	return fmt.Errorf("--checkpoint: %w", err)
}

// otherRun returns the error that a checkpoint is of another run, with the flags that differ.
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

// steps returns the steps of the checkpoints in the directory, newest first.
func (f checkpointFlags) steps() (steps []int64, err error) {
	c, err := galley.OpenCheckpoints(galley.CheckpointConfig{Dir: f.Checkpoint, Job: job, Keep: -1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return c.Steps(context.Background())
}

// fromStep returns the step of the checkpoint to resume from: 0 for the newest.
func (f checkpointFlags) fromStep() (int64, error) {
	if f.From == 0 && !f.Rewind {
		return 0, nil
	}
	steps, err := f.steps()
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

// diverged adds to the error of a diverged run how it can be resumed from an earlier checkpoint.
func (f checkpointFlags) diverged(err error) error {
	if f.Checkpoint == "" {
		return err
	}
	steps, e := f.steps()
	if e != nil || len(steps) == 0 {
		return err
	}
	return fmt.Errorf(
		"%w: run it again to go on from the checkpoint of step %d, or with --rewind from the one before it",
		err,
		steps[0],
	)
}
