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

// Config describes where checkpoints are stored, and how many.
type Config struct {
	// Dir is created if necessary. One Keeper at a time writes to it.
	Dir string
	// Keep is the number of good checkpoints that are kept, the newest; 0 means 3, less than 0 all. With 1 there
	// is no fallback if that one is corrupted.
	Keep int
	// KeepEvery, if set, also keeps the checkpoints of all steps that it divides.
	KeepEvery int64
	// KeepBest, if set, names a scalar: the checkpoint with its lowest value is kept, too.
	KeepBest string
	// Finite refuses states with numbers that are not finite.
	Finite bool
	// Writers is the number of files that are written in parallel; 0 means 2.
	Writers int
	// Peers, if set, are the processes that write together: all of them make the same calls to their Keepers.
	Peers Peers
	// Epoch, if set, is the number of this start of a restarted job: a keeper of an earlier start writes nothing
	// any more, even if it is still alive.
	Epoch int
	// Log receives saves and removals; nil logs nothing.
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

// health is what is known about a checkpoint on disk.
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
	// score is what KeepBest compares, NaN if there is none; scored is whether it is known.
	score  float64
	scored bool
}

// Keeper writes the checkpoints of a run, one at a time, and removes old ones. Its methods are safe for
// concurrent use.
type Keeper struct {
	c    Config
	lock *os.File
	// turn holds a token while a save runs, or while the fields below are accessed.
	turn    chan struct{}
	kept    []kept // newest first
	err     error  // of the last save, until it is returned
	closed  bool
	buffers []array.Array

	step, done, total atomic.Int64
}

// NewKeeper opens a directory for writing and removes incomplete checkpoints of killed processes.
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

// hold locks the directory for this process.
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

// letGo unlocks the directory, if this process holds it.
func (k *Keeper) letGo() error {
	if k.lock == nil {
		return nil
	}
	return k.lock.Close()
}

// adopt lists the contents of the directory. Only the holder of the lock may call it, because others'
// temporaries are in use.
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

// Wait waits for a running save and returns its error, unless that has been returned before.
func (k *Keeper) Wait(ctx context.Context) error {
	if err := k.acquire(ctx); err != nil {
		return err
	}
	defer k.release()
	return k.takeError()
}

// Outcome reports whether no save is running, and the error of the last one, unless that has been returned
// before. It never waits.
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

// Close waits for a running save and unlocks the directory. The error is that of Wait.
func (k *Keeper) Close() error {
	k.turn <- struct{}{}
	defer k.release()
	if k.closed {
		return nil
	}
	k.closed, k.buffers = true, nil
	return errors.Join(k.takeError(), k.letGo())
}

// Progress is the progress of a save.
type Progress struct {
	// Step is that of the last save that began; 0 before the first.
	Step int64
	// Done and Total are bytes of tensors; they are equal when all is written, but perhaps not yet synced.
	Done, Total int64
}

// Progress returns the progress of the last save. It never waits.
func (k *Keeper) Progress() Progress {
	p := Progress{Step: k.step.Load(), Done: k.done.Load(), Total: k.total.Load()}
	p.Done = min(p.Done, p.Total) // headers are written, too, and do not count
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
