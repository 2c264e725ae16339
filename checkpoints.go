package galley

import (
	"context"
	"errors"
	"fmt"

	"github.com/galley-ml/galley/internal/checkpoint"
)

// CheckpointConfig says where checkpoints are kept and how many.
type CheckpointConfig struct {
	// Dir is made if need be. One process at a time writes to it.
	Dir string
	// Keep is how many stay, the newest; 0 means 3, less than 0 all.
	Keep int
}

// Checkpoints is a directory of checkpoints of one run. They are written in the background, under temporary names until they
// are complete and on disk.
type Checkpoints struct{ keeper *checkpoint.Keeper }

// OpenCheckpoints makes the directory ready for writing.
func OpenCheckpoints(c CheckpointConfig) (*Checkpoints, error) {
	k, err := checkpoint.NewKeeper(checkpoint.Config{Dir: c.Dir, Keep: c.Keep})
	if err != nil {
		return nil, err
	}
	return &Checkpoints{k}, nil
}

// Wait returns when the last checkpoint is on disk, with its error if it is not.
func (c *Checkpoints) Wait(ctx context.Context) error { return c.keeper.Wait(ctx) }

// Close waits and gives the directory up.
func (c *Checkpoints) Close() error { return c.keeper.Close() }

// skippedScalar is the name of what checkpoints hold beside tensors: how many steps changed nothing.
const skippedScalar = "skipped_steps"

// Save begins a checkpoint of the state after the last step: it copies what training goes on to change, and writes in the
// background. sample is the global number of the next sample, which Resume returns. The error may be an earlier one's.
func (t *Trainer) Save(ctx context.Context, c *Checkpoints, sample int64) error {
	state, err := t.exec.Save()
	if err != nil {
		return err
	}
	state.Meta.Step, state.Meta.Sample = int64(t.step), sample
	state.Scalars = append(state.Scalars, checkpoint.Int(skippedScalar, int64(t.skipped)))
	return c.keeper.Save(ctx, state)
}

// Resumed is where a run goes on.
type Resumed struct {
	// From is the checkpoint's directory. Step is how many steps were taken, Sample the number of the next sample.
	From         string
	Step, Sample int64
	// Skipped names newer checkpoints that were torn or corrupt, and why.
	Skipped []error
}

// ErrNoCheckpoint is a directory without any: a fresh start is right.
var ErrNoCheckpoint = errors.New("no checkpoint")

// Resume brings the trainer to the newest good checkpoint in dir, whatever strategy and number of devices wrote it. It
// wraps ErrNoCheckpoint where there is none at all.
func (t *Trainer) Resume(dir string) (*Resumed, error) {
	r, err := checkpoint.Open(dir, checkpoint.OpenConfig{})
	if none, ok := errors.AsType[*checkpoint.NoneError](err); ok && len(none.Skipped) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrNoCheckpoint, err)
	}
	if err != nil {
		return nil, err
	}
	out := &Resumed{From: r.Path(), Step: r.Meta().Step, Sample: r.Meta().Sample}
	for _, e := range r.Skipped() {
		out.Skipped = append(out.Skipped, e)
	}
	if err := t.take(r); err != nil {
		r.Close()
		return nil, fmt.Errorf("checkpoint %s: %w", r.Path(), err)
	}
	return out, nil
}

// take checks that a checkpoint is of this model and hands it to the executor.
func (t *Trainer) take(r *checkpoint.Reader) error {
	if err := t.matches(r); err != nil {
		return err
	}
	meta := r.Meta()
	if err := t.exec.Load(r); err != nil {
		return err
	}
	t.step = int(meta.Step)
	if n, err := meta.Int(skippedScalar); err == nil {
		t.skipped = int(n)
	}
	return nil
}

// matches is an error where a checkpoint has other tensors than the trainer: a longer model's would else be taken for its own.
func (t *Trainer) matches(r *checkpoint.Reader) error {
	c, known := t.c.executor(), map[string]bool{}
	for _, x := range c.State() {
		name, want := c.Name(x), c.Params[x.Param].Type
		known[name] = true
		got, ok := r.Type(name)
		if !ok {
			return fmt.Errorf("it has no %s: it is of another model or optimizer", name)
		}
		if !got.Equal(want) {
			return fmt.Errorf("%s: got %v, want %v: it is of another model", name, got, want)
		}
	}
	for _, x := range r.Tensors() {
		if !known[x.Name] {
			return fmt.Errorf("it has %s, which the model or its optimizer does not: it is of another", x.Name)
		}
	}
	return nil
}
