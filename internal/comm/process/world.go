package process

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/galley-ml/galley/internal/comm"
)

// World is a world whose ranks are in the processes of a job.
type World struct {
	p     *Process
	id    int
	owner []int // by rank

	running sync.Mutex // held during a run: the n-th runs of all processes are one

	// What follows is guarded by the process's lock.
	runs    int // how many have begun here
	current *run
	early   map[int][]note // of runs that have not started here, by number
	stats   []comm.Stats
}

var _ comm.World = (*World)(nil)

// Size returns the number of ranks.
func (w *World) Size() int { return len(w.owner) }

// Process returns the number of this process.
func (w *World) Process() int { return w.p.rank }

// Owner returns the process of a rank.
func (w *World) Owner(rank int) int { return w.owner[rank] }

// Close drops the world's notes; the process stays in the job.
func (w *World) Close() error {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.early = map[int][]note{}
	return nil
}

// Stats returns what a rank of this process has moved in all runs so far.
func (w *World) Stats(rank int) comm.Stats {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	return w.stats[rank]
}

// count adds a rendezvous's traffic to the statistics of its members in this process.
func (w *World) count(m *rendezvous) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	for slot, c := range m.Calls {
		if m.Local[slot] {
			w.stats[m.Ranks[slot]].Add(c.Kind, c.Traffic(m.plan.Results[slot].Array))
		}
	}
}

// errExit is a worker that ended its goroutine instead of returning, as testing's FailNow does.
var errExit = errors.New("worker ended its goroutine without returning")

// Run calls worker once for every rank of this process; see comm.World.
func (w *World) Run(ctx context.Context, worker func(ctx context.Context, c comm.Comm) error) error {
	w.running.Lock()
	defer w.running.Unlock()
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := w.begin(cancel)
	if err != nil {
		return err
	}
	defer w.p.watch(s.look)()
	defer context.AfterFunc(ctx, func() { s.fail(ended(ctx)) })()
	var workers sync.WaitGroup
	for rank, process := range w.owner {
		if process == w.p.rank {
			workers.Go(func() { s.errs[rank] = s.drive(inner, ctx, rank, worker) })
		}
	}
	workers.Wait()
	return s.leave()
}

// begin starts the next run and handles the notes that arrived before it.
func (w *World) begin(cancel context.CancelCauseFunc) (*run, error) {
	w.p.mu.Lock()
	if err := w.p.over; err != nil {
		w.p.mu.Unlock()
		return nil, err
	}
	s := newRun(w, w.runs, cancel)
	s.inbox, s.handling = w.early[s.number], true
	delete(w.early, s.number)
	w.current = s
	w.runs++
	w.p.mu.Unlock()
	s.drain() // notes that the transport delivers from now on are handled after these
	return s, nil
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

// Rank is one rank's connection to a world, valid for one Run. It is used by the goroutine of its worker.
type Rank struct {
	run *run
	id  int
}

var (
	_ comm.Comm       = (*Rank)(nil)
	_ comm.Progresser = (*Rank)(nil)
)

// ID returns the rank's index in the world.
func (r *Rank) ID() int { return r.id }

// Size returns the number of ranks in the world.
func (r *Rank) Size() int { return r.run.world.Size() }

// Group returns the group of the given ranks in the given order; nil means all. The rank must be a member.
func (r *Rank) Group(ranks []int) (*comm.Group, error) { return comm.NewGroup(r, ranks) }

// Stats returns what the rank has moved in all runs of its world.
func (r *Rank) Stats() comm.Stats { return r.run.world.Stats(r.id) }

// Start adds the call to its rendezvous.
func (r *Rank) Start(c *comm.Call) *comm.Pending {
	c.Allocate()
	v, err := r.run.enter(r.id, c)
	if err != nil {
		return comm.Failed(err)
	}
	if v.last {
		r.run.begin(v.m)
	}
	r.run.inFlight.Add(1)
	return comm.NewPending(func() (comm.Result, error) {
		defer r.run.inFlight.Add(-1)
		return r.run.wait(r.id, v)
	})
}

// Progress advances collectives that ranks of this process have started and do not wait for.
func (r *Rank) Progress() {
	if f := r.run.world.p.progress; f != nil && r.run.inFlight.Load() > 0 {
		f()
	}
}
