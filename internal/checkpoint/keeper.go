package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/galley-ml/galley/array"
)

// Config says where checkpoints are kept, and how many.
type Config struct {
	// Dir is made if need be. One Keeper at a time writes to it.
	Dir string
	// Keep is how many good checkpoints stay, the newest; 0 means 3, less than 0 all. With 1 there is none to
	// fall back to when that one goes bad.
	Keep int
	// KeepEvery, if set, lets the checkpoints of all steps stay that it divides, besides the newest.
	KeepEvery int64
	// KeepBest, if set, is a number among the scalars: the checkpoint in which it is lowest stays, too.
	KeepBest string
	// Finite refuses states with numbers that are not finite.
	Finite bool
	// Writers is how many files are written side by side; 0 means 2.
	Writers int
	// Peers, if set, are the processes that write together: all of them do with their Keepers the same.
	Peers Peers
	// Epoch, if set, is the number of this start of a job that is started again: a keeper of an earlier one
	// writes nothing any more, even if it still lives.
	Epoch int
	// Log is told of saves and removals; nil is told nothing.
	Log *slog.Logger

	files files // nil means the disk
}

func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("checkpoint: no directory: want Config.Dir")
	}
	if c.Keep == 0 {
		c.Keep = 3
	}
	if c.Writers <= 0 {
		c.Writers = 2
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.files == nil {
		c.files = disk{}
	}
	return c, nil
}

// health is what is known of a checkpoint on disk.
type health uint8

const (
	unknown health = iota
	good
	bad
)

// kept is a checkpoint on disk.
type kept struct {
	name   name
	health health
	// score is what KeepBest compares; it is NaN where there is none, and scored is whether that is known.
	score  float64
	scored bool
}

// Keeper writes the checkpoints of a run, one at a time, and removes old ones. Its methods may be called
// concurrently.
type Keeper struct {
	c    Config
	lock *os.File
	// turn holds a token while a save runs, or while someone looks at the fields below.
	turn    chan struct{}
	kept    []kept // newest first
	err     error  // of the last save, until someone is told
	closed  bool
	buffers []array.Array

	step, done, total atomic.Int64
}

// NewKeeper opens a directory for writing and removes what killed processes left there half-written.
func NewKeeper(c Config) (*Keeper, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	k := &Keeper{c: c, turn: make(chan struct{}, 1)}
	if err := k.open(); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", errors.Join(err, k.letGo()))
	}
	return k, nil
}

// hold takes the directory for this process.
func (k *Keeper) hold() (err error) {
	if err := k.c.files.MkdirAll(k.c.Dir); err != nil {
		return err
	}
	if err := k.outlived(); err != nil {
		return err
	}
	if k.lock, err = lock(k.c.Dir); err != nil && !k.outlives() {
		return err
	}
	if err := k.raise(); err != nil {
		return err
	}
	return k.adopt()
}

// letGo gives the directory up, if this process has it.
func (k *Keeper) letGo() error {
	if k.lock == nil {
		return nil
	}
	return k.lock.Close()
}

// adopt takes stock of the directory. Only a lock's holder may call it: others' temporaries are in use.
func (k *Keeper) adopt() error {
	names, temps, err := list(k.c.Dir)
	if err != nil {
		return err
	}
	for _, t := range temps {
		k.c.Log.Info("checkpoint: removing what was left half-written", "path", filepath.Join(k.c.Dir, t))
		if err := k.c.files.RemoveAll(filepath.Join(k.c.Dir, t)); err != nil {
			return err
		}
	}
	for _, n := range names {
		k.kept = append(k.kept, kept{name: n})
	}
	return nil
}

// acquire waits until no save runs.
func (k *Keeper) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("checkpoint: waiting for the save of step %d: %w", k.step.Load(), ctx.Err())
	}
}

func (k *Keeper) release() { <-k.turn }

// takeError returns the error of the last save, once.
func (k *Keeper) takeError() error {
	err := k.err
	k.err = nil
	return err
}

// Wait waits for a save that runs and returns its error, unless someone was told of it before.
func (k *Keeper) Wait(ctx context.Context) error {
	if err := k.acquire(ctx); err != nil {
		return err
	}
	defer k.release()
	return k.takeError()
}

// Outcome reports whether no save runs, and the error of the last one, unless someone was told of it before.
// It never waits.
func (k *Keeper) Outcome() (done bool, err error) {
	select {
	case k.turn <- struct{}{}:
		defer k.release()
		return true, k.takeError()
	default:
		return false, nil
	}
}

// Busy reports whether a save runs.
func (k *Keeper) Busy() bool { return len(k.turn) > 0 }

// Close waits for a save that runs and lets go of the directory. The error is as Wait's.
func (k *Keeper) Close() error {
	k.turn <- struct{}{}
	defer k.release()
	if k.closed {
		return nil
	}
	k.closed, k.buffers = true, nil
	return errors.Join(k.takeError(), k.letGo())
}

// Progress is how far a save is.
type Progress struct {
	// Step is that of the last save that began; 0 before the first.
	Step int64
	// Done and Total are bytes of tensors; they are equal when all is written, though perhaps not yet on the
	// disk.
	Done, Total int64
}

// Progress returns how far the last save is. It never waits.
func (k *Keeper) Progress() Progress {
	p := Progress{Step: k.step.Load(), Done: k.done.Load(), Total: k.total.Load()}
	p.Done = min(p.Done, p.Total) // headers are written, too, and are no progress
	return p
}

// Steps returns the steps of the checkpoints in the directory, newest first, whether good or not.
func (k *Keeper) Steps(ctx context.Context) ([]int64, error) {
	if err := k.acquire(ctx); err != nil {
		return nil, err
	}
	defer k.release()
	var steps []int64
	for _, e := range k.kept {
		steps = append(steps, e.name.step)
	}
	words, err := k.confer(word{Steps: steps}, nil)
	if err != nil {
		return nil, err
	}
	return slices.Compact(words[0].Steps), nil
}
