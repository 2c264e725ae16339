package galley

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/checkpoint"
)

// CheckpointConfig says where checkpoints are kept and how many.
type CheckpointConfig struct {
	// Dir is made if need be. One process at a time writes to it.
	Dir string
	// Keep is how many stay, the newest; 0 means 3, less than 0 all. The best of those that were evaluated stays besides.
	Keep int
	// KeepEvery, where set, lets those of all steps stay that it divides.
	KeepEvery int
}

// Checkpoints is a directory of checkpoints of one run. They are written in the background, under temporary names until they
// are complete and on disk.
type Checkpoints struct{ keeper *checkpoint.Keeper }

// OpenCheckpoints makes the directory ready for writing.
func OpenCheckpoints(c CheckpointConfig) (*Checkpoints, error) {
	k, err := checkpoint.NewKeeper(checkpoint.Config{Dir: c.Dir, Keep: c.Keep, KeepEvery: int64(c.KeepEvery), KeepBest: scoreScalar, Finite: true})
	if err != nil {
		return nil, err
	}
	return &Checkpoints{k}, nil
}

// Wait returns when the last checkpoint is on disk, with its error if it is not.
func (c *Checkpoints) Wait(ctx context.Context) error { return c.keeper.Wait(ctx) }

// Rewind removes the checkpoints of all steps after one, so that a run can go on from there.
func (c *Checkpoints) Rewind(ctx context.Context, step int64) error {
	return c.keeper.Rewind(ctx, step)
}

// Steps is the steps of the checkpoints in the directory, newest first.
func (c *Checkpoints) Steps(ctx context.Context) ([]int64, error) { return c.keeper.Steps(ctx) }

// Close waits and gives the directory up.
func (c *Checkpoints) Close() error { return c.keeper.Close() }

// names of what checkpoints hold beside tensors.
const (
	skippedScalar = "skipped_steps"
	scaleScalar   = "loss_scale"
	goodScalar    = "loss_scale_good_steps"
	// scoreScalar is the loss of an evaluation after the step, bestScalar the least of all so far.
	scoreScalar = "valid_loss"
	bestScalar  = "best_valid_loss"
)

// The random streams. Random numbers are keyed by seed and counter, so these are all there is to know of them.
const (
	dataStream = "data" // samples that were dealt
	stepStream = "step" // steps that were taken
)

// Save begins a checkpoint of the state after the last step: it copies what training goes on to change, and writes in the
// background. sample is the global number of the next sample, which Resume returns. The error may be an earlier one's. A
// state that is not finite is refused.
func (t *Trainer) Save(ctx context.Context, c *Checkpoints, sample int64) error {
	return t.save(ctx, c, sample)
}

// save is Save with further numbers.
func (t *Trainer) save(ctx context.Context, c *Checkpoints, sample int64, scalars ...checkpoint.Scalar) error {
	state := checkpoint.State{Meta: checkpoint.Meta{Step: int64(t.step), Sample: sample, Seed: t.c.Seed, Scalars: scalars,
		RNG: []checkpoint.Counter{{Name: dataStream, Value: uint64(sample)}, {Name: stepStream, Value: uint64(t.step)}}}}
	var err error
	if t.many == nil {
		state.Tensors, err = t.wholeState()
	} else {
		state.Tensors, err = t.shardedState()
		state.Scalars = append(state.Scalars, checkpoint.Float(scaleScalar, t.many.scale.scale), checkpoint.Int(goodScalar, int64(t.many.scale.good)))
	}
	if err != nil {
		return err
	}
	state.Scalars = append(state.Scalars, checkpoint.Int(skippedScalar, int64(t.skipped)))
	state.Scalars = append(state.Scalars, t.saveFacts()...)
	return c.keeper.Save(ctx, state)
}

func (t *Trainer) wholeState() ([]checkpoint.Tensor, error) {
	params, memory, err := t.state()
	if err != nil {
		return nil, err
	}
	var list []checkpoint.Tensor
	slots := t.c.Optimizer.Slots()
	for i, p := range t.c.Params {
		list = append(list, checkpoint.Whole(p.Name, params[i]))
		for k := range slots {
			list = append(list, checkpoint.Whole(slotName(p.Name, k), memory[i*slots+k]))
		}
	}
	return list, nil
}

func (t *Trainer) shardedState() ([]checkpoint.Tensor, error) {
	if t.trained.lost != nil {
		return nil, t.trained.lost
	}
	if t.many.runner == nil {
		return nil, errors.New("checkpoint: the trainer has taken no step: its state is that which it was given")
	}
	var list []checkpoint.Tensor
	for _, x := range t.many.runner.Tensors() {
		if x.Slot < t.many.h.masters()-1 { // what the precise value is rounded to
			continue
		}
		l, parts, err := t.many.runner.Parts(x)
		if err != nil {
			return nil, err
		}
		s, err := checkpoint.Sharded(t.many.h.savedName(x), l, parts)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// Resumed is where a run goes on.
type Resumed struct {
	// From is the checkpoint's directory. Step is how many steps were taken, Sample the number of the next sample.
	From         string
	Step, Sample int64
	// Skipped names newer checkpoints that were torn or corrupt, and why.
	Skipped []error
	// Changed is what was allowed to differ from the checkpoint's run, and does.
	Changed []Difference
	// Best is the least loss of all evaluations of the run so far; NaN where there was none.
	Best float64
}

// ResumeConfig says which checkpoint a run goes on from. The zero value is the newest good one.
type ResumeConfig struct {
	// Step, where set, is that of the checkpoint.
	Step int64
	// Changed is the names of facts that may be others than those of the checkpoint's run; "all" stands for every one.
	Changed []string
}

// ErrNoCheckpoint is a directory without any: a fresh start is right.
var ErrNoCheckpoint = errors.New("no checkpoint")

// Resume brings the trainer to the newest good checkpoint in dir, whatever strategy and number of devices wrote it. It
// wraps ErrNoCheckpoint where there is none at all.
func (t *Trainer) Resume(dir string) (*Resumed, error) { return t.ResumeFrom(dir, ResumeConfig{}) }

// ResumeFrom is Resume from a checkpoint of choice. One whose facts are others is an *OtherRunError.
func (t *Trainer) ResumeFrom(dir string, c ResumeConfig) (*Resumed, error) {
	r, err := openCheckpoint(dir, c.Step)
	if none, ok := errors.AsType[*checkpoint.NoneError](err); ok && len(none.Skipped) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrNoCheckpoint, err)
	}
	if err != nil {
		return nil, err
	}
	out := &Resumed{From: r.Path(), Step: r.Meta().Step, Sample: r.Meta().Sample, Changed: t.changes(r), Best: math.NaN()}
	if x, err := r.Meta().Float(bestScalar); err == nil {
		out.Best = x
	}
	for _, e := range r.Skipped() {
		out.Skipped = append(out.Skipped, e)
	}
	if err := t.fitting(r); err != nil {
		r.Close()
		return nil, fmt.Errorf("checkpoint %s: %w", r.Path(), err)
	}
	if err := t.sameRun(r, c.Changed); err != nil {
		r.Close()
		return nil, err
	}
	if err := t.take(r); err != nil {
		r.Close()
		return nil, fmt.Errorf("checkpoint %s: %w", r.Path(), err)
	}
	return out, nil
}

// openCheckpoint opens the checkpoint of a step, or the newest for 0.
func openCheckpoint(dir string, step int64) (*checkpoint.Reader, error) {
	if step > 0 {
		return checkpoint.OpenStep(dir, step, checkpoint.OpenConfig{})
	}
	return checkpoint.Open(dir, checkpoint.OpenConfig{})
}

// surplus is an error if a checkpoint has tensors that the trainer does not: a longer model's would else be taken for its own.
func (t *Trainer) surplus(r *checkpoint.Reader) error {
	known := map[string]bool{}
	for _, p := range t.c.Params {
		known[p.Name] = true
		for k := range t.c.Optimizer.Slots() {
			known[slotName(p.Name, k)] = true
		}
	}
	for _, x := range r.Tensors() {
		if !known[x.Name] {
			return fmt.Errorf("it has %s, which the model or its optimizer does not: it is of another", x.Name)
		}
	}
	return nil
}

// stateNames calls f with every parameter and slot, -1 for the parameter itself, and its name in checkpoints.
func (t *Trainer) stateNames(f func(param, slot int, name string) error) error {
	for i, p := range t.c.Params {
		for k := -1; k < t.c.Optimizer.Slots(); k++ {
			name := p.Name
			if k >= 0 {
				name = slotName(p.Name, k)
			}
			if err := f(i, k, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// fitting checks that a checkpoint is of this model and optimizer.
func (t *Trainer) fitting(r *checkpoint.Reader) error {
	if err := t.surplus(r); err != nil {
		return err
	}
	return t.stateNames(func(i, _ int, name string) error {
		got, ok := r.Type(name)
		if !ok {
			return fmt.Errorf("it has no %s: it is of another model or optimizer", name)
		}
		if want := t.c.Params[i].Type; !got.Equal(want) {
			return fmt.Errorf("%s: got %v, want %v: it is of another model", name, got, want)
		}
		return nil
	})
}

// take reads a checkpoint, or keeps it to be read when the step is planned.
func (t *Trainer) take(r *checkpoint.Reader) error {
	if t.many == nil {
		err := t.stateNames(func(i, k int, name string) error {
			a, err := r.ReadWhole(name)
			if err != nil {
				return err
			}
			return t.put(i, k, a)
		})
		if err != nil {
			return err
		}
	}
	meta := r.Meta()
	t.step = int(meta.Step)
	if n, err := meta.Int(skippedScalar); err == nil {
		t.skipped = int(n)
	}
	t.trained.lost = nil
	if t.many == nil {
		if t.remote != nil {
			t.changed()
		}
		return r.Close()
	}
	if x, err := meta.Float(scaleScalar); err == nil && t.many.scale.scale > 1 && x > 1 {
		good, _ := meta.Int(goodScalar)
		t.many.scale = lossScale{x, int(good)}
	}
	if t.many.runner != nil {
		t.many.runner.Close()
		t.many.runner = nil
	}
	t.many.saved = r
	t.changed()
	return nil
}

// put sets a parameter, or one of its slots.
func (t *Trainer) put(param, slot int, a array.Array) error {
	switch at := param*t.c.Optimizer.Slots() + slot; {
	case t.remote != nil && slot >= 0:
		return t.remote.replace(t.c, len(t.c.Params)+at, a)
	case t.remote != nil:
		return t.remote.replace(t.c, param, a)
	case slot >= 0:
		t.slots[at] = a
	default:
		t.c.Params[param].Value = t.session.Tensor(a).Track()
	}
	return nil
}
