package inproc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/galley-ml/galley/internal/comm"
)

// World is a number of in-process ranks. It keeps their traffic statistics; all other state belongs to one
// Run. Runs share only the statistics, so with one process they may overlap.
type World struct {
	*ranks
	process int
	runs    int // the number of runs that this process has begun
}

var _ comm.World = (*World)(nil)

// ranks is the state shared by the worlds of several processes.
type ranks struct {
	owner     []int // by rank
	processes int
	scratch   sync.Pool // of *comm.Scratch

	mu    sync.Mutex
	stats []comm.Stats
	open  map[int]*run // runs that some processes have not begun yet, by number
}

// New makes a world of n ranks, all in this process.
func New(n int) (*World, error) {
	if n < 1 {
		return nil, fmt.Errorf("world: %d ranks: want at least one", n)
	}
	worlds, err := Processes(make([]int, n))
	if err != nil {
		return nil, err
	}
	return worlds[0], nil
}

// Processes makes one world for each simulated process of a job, all in this process; owner gives the process
// of every rank. The n-th runs of all worlds are one run.
func Processes(owner []int) ([]*World, error) {
	r := &ranks{owner: slices.Clone(owner), stats: make([]comm.Stats, len(owner)), open: map[int]*run{}}
	r.scratch.New = func() any { return new(comm.Scratch) }
	for rank, process := range owner {
		if process < 0 || process >= len(owner) {
			return nil, fmt.Errorf("world: rank %d: process %d: want one below %d", rank, process, len(owner))
		}
		r.processes = max(r.processes, process+1)
	}
	worlds := make([]*World, r.processes)
	for i := range worlds {
		worlds[i] = &World{ranks: r, process: i}
	}
	return worlds, nil
}

// Size returns the number of ranks.
func (r *ranks) Size() int { return len(r.owner) }

// Owner returns the process of a rank.
func (r *ranks) Owner(rank int) int { return r.owner[rank] }

// Process returns the number of this process: 0 if there is only one.
func (w *World) Process() int { return w.process }

// Close does nothing: there is nothing to release.
func (w *World) Close() error { return nil }

// Stats returns what the rank has moved in all runs so far.
func (r *ranks) Stats(rank int) comm.Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats[rank]
}

// count adds a rendezvous's traffic to its members' statistics.
func (r *ranks) count(m *rendezvous) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for slot, c := range m.Calls {
		r.stats[m.Ranks[slot]].Add(c.Kind, c.Traffic(m.plan.Results[slot].Array))
	}
}

// errExit is a worker that ended its goroutine instead of returning, as testing's FailNow does.
var errExit = errors.New("worker ended its goroutine without returning")

// Run calls worker once for every rank of this process; see comm.World.
func (w *World) Run(ctx context.Context, worker func(ctx context.Context, c comm.Comm) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := w.join(cancel)
	defer context.AfterFunc(ctx, func() { s.fail(ended(ctx)) })()
	var workers sync.WaitGroup
	for rank, process := range w.owner {
		if process == w.process {
			workers.Go(func() { s.errs[rank] = s.drive(inner, ctx, rank, worker) })
		}
	}
	workers.Wait()
	s.leave()
	return s.verdict()
}

// join starts this process's next run, or joins it if another process has started it.
func (w *World) join(cancel context.CancelCauseFunc) *run {
	w.mu.Lock()
	defer w.mu.Unlock()
	number := w.runs
	w.runs++
	s := w.open[number]
	if s == nil {
		s = newRun(w.ranks)
		w.open[number] = s
	}
	if s.enterProcess(cancel) == w.processes {
		delete(w.open, number)
	}
	return s
}

// ended returns the error of a run whose context has ended, and nil before.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("world: %w", context.Cause(ctx))
}

// drive runs one worker and reports to its peers how it ended. A worker that returns because the caller's
// context has ended has not failed by itself.
func (s *run) drive(ctx, outer context.Context, rank int,
	worker func(context.Context, comm.Comm) error) (err error) {
	err = errExit // remains if the worker neither returns nor panics
	defer func() {
		if v := recover(); v != nil {
			err = &comm.PanicError{Value: v, Stack: debug.Stack()}
		}
		if over := ended(outer); over != nil && errors.Is(err, outer.Err()) {
			s.fail(over)
		}
		s.finish(rank, err)
	}()
	err = worker(ctx, &Rank{run: s, id: rank})
	return err
}

// verdict returns the run's failure and the other errors of workers, without repetitions of the failure.
func (s *run) verdict() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []error{s.err}
	first, _ := s.err.(*comm.PeerError)
	for rank, err := range s.errs {
		echo := err == nil || errors.Is(err, s.err) || errors.Is(err, context.Canceled)
		if echo || first != nil && first.Rank == rank {
			continue
		}
		all = append(all, &comm.PeerError{Rank: rank, Err: err})
	}
	return errors.Join(all...)
}

// Rank is one rank's connection to an in-process world, valid for one Run. It is used by the goroutine of its
// worker.
type Rank struct {
	run *run
	id  int
}

var _ comm.Comm = (*Rank)(nil)

// ID returns the rank's index in the world.
func (r *Rank) ID() int { return r.id }

// Size returns the number of ranks in the world.
func (r *Rank) Size() int { return r.run.world.Size() }

// Group returns the group of the given ranks in the given order; nil means all. The rank must be a member.
func (r *Rank) Group(ranks []int) (*comm.Group, error) { return comm.NewGroup(r, ranks) }

// Stats returns what the rank has moved in all runs of its world.
func (r *Rank) Stats() comm.Stats { return r.run.world.Stats(r.id) }

// Start adds the call to its rendezvous. The last member to arrive does small work at once and starts
// goroutines for large work, so that it continues while members compute.
func (r *Rank) Start(c *comm.Call) *comm.Pending {
	c.Allocate()
	v, err := r.run.enter(r.id, c)
	if err != nil {
		return comm.Failed(err)
	}
	if v.last {
		r.run.begin(v.m)
	}
	return comm.NewPending(func() (comm.Result, error) { return r.run.wait(r.id, v) })
}
