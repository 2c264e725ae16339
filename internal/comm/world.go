package comm

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// World is a number of in-process ranks. It counts what they move; all else lives as long as one Run.
type World struct {
	size    int
	scratch sync.Pool // of *scratch

	mu    sync.Mutex
	stats []Stats
}

// NewWorld makes a world of n ranks.
func NewWorld(n int) (*World, error) {
	if n < 1 {
		return nil, fmt.Errorf("world: %d ranks: want at least one", n)
	}
	w := &World{size: n, stats: make([]Stats, n)}
	w.scratch.New = func() any { return new(scratch) }
	return w, nil
}

// Size is the number of ranks.
func (w *World) Size() int { return w.size }

// Stats is what the rank has moved in all runs so far.
func (w *World) Stats(rank int) Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats[rank]
}

// count adds a meeting's traffic to its members' statistics.
func (w *World) count(m *meeting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for slot, c := range m.calls {
		w.stats[m.lane.ranks[slot]].Add(c.Kind, c.Traffic(m.results[slot].Array))
	}
}

// errExit is a worker that ended its goroutine instead of returning, as testing's FailNow does.
var errExit = errors.New("worker ended its goroutine without returning")

// Run calls worker once for every rank, each on a goroutine of its own, and returns when all have returned. The first
// failure ends all collectives of the run: an error or panic of a worker (the peers get a *PeerError that names it), calls
// that do not fit (*MismatchError), ranks that wait for each other (*DeadlockError) or the end of ctx, whose cause it
// wraps. Workers see it as an error of their collective and as the cause of their context. Run returns that failure,
// joined with the errors of workers that have one of their own.
//
// Runs share nothing but the statistics, so they may overlap.
func (w *World) Run(ctx context.Context, worker func(ctx context.Context, r *Rank) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	run := newRun(w, cancel)
	defer context.AfterFunc(ctx, func() { run.fail(ended(ctx)) })()
	errs := make([]error, w.size)
	var workers sync.WaitGroup
	for i := range w.size {
		workers.Go(func() { errs[i] = run.drive(inner, ctx, i, worker) })
	}
	workers.Wait()
	run.helpers.Wait()
	return run.verdict(errs)
}

// ended is the error of a run whose context is over, nil before.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("world: %w", context.Cause(ctx))
}

// drive runs one worker and tells its peers how it ended. A worker that returns because the caller's context is over has
// not failed by itself.
func (s *run) drive(ctx, outer context.Context, rank int, worker func(context.Context, *Rank) error) (err error) {
	err = errExit // stands if the worker neither returns nor panics
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		if over := ended(outer); over != nil && errors.Is(err, outer.Err()) {
			s.fail(over)
		}
		s.finish(rank, err)
	}()
	err = worker(ctx, &Rank{run: s, id: rank})
	return err
}

// verdict is the run's failure and what workers report beside it: not their echoes of it.
func (s *run) verdict(errs []error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []error{s.err}
	first, _ := s.err.(*PeerError)
	for rank, err := range errs {
		echo := err == nil || errors.Is(err, s.err) || errors.Is(err, context.Canceled)
		if echo || first != nil && first.Rank == rank {
			continue
		}
		all = append(all, &PeerError{Rank: rank, Err: err})
	}
	return errors.Join(all...)
}

// Rank is one rank's end of an in-process world, for the time of one Run. It is driven by the goroutine of its worker.
type Rank struct {
	run *run
	id  int
}

var _ Comm = (*Rank)(nil)

// ID is the rank's index in the world.
func (r *Rank) ID() int { return r.id }

// Size is the number of ranks in the world.
func (r *Rank) Size() int { return r.run.world.size }

// Group is the group of the given ranks in the given order; nil means all. The rank must be a member.
func (r *Rank) Group(ranks []int) (*Group, error) { return NewGroup(r, ranks) }

// Stats is what the rank has moved in all runs of its world.
func (r *Rank) Stats() Stats { return r.run.world.Stats(r.id) }

// Start brings the call to its meeting. The last member to come does small work at once and has large work begun in the
// background, so that it goes on while members compute.
func (r *Rank) Start(c *Call) *Pending {
	c.allocate()
	v, err := r.run.enter(r.id, c)
	if err != nil {
		return failed(err)
	}
	if v.last {
		r.run.begin(v.m)
	}
	return NewPending(func() (Result, error) { return r.run.wait(r.id, v) })
}
