package inproc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/galley-ml/galley/internal/comm"
)

// run is the state of one run of a world. One lock guards it; arrays are never read or written under it.
type run struct {
	world   *ranks
	errs    []error        // what the workers returned, by rank; to be read when all have
	helpers sync.WaitGroup // goroutines that do a rendezvous's work in the background
	over    chan struct{}  // closed when the workers of all processes have returned

	mu       sync.Mutex
	cancels  []context.CancelCauseFunc // of the processes that have begun the run
	left     int                       // the number of processes that have not finished
	err      error                     // the first failure; no rendezvous becomes complete after it
	stop     chan struct{}
	lanes    map[laneKey]*lane
	waiting  []*rendezvous // by rank: the rendezvous it waits for; may be left set after completion, harmlessly
	finished []bool
}

func newRun(w *ranks) *run {
	n := w.Size()
	return &run{
		world: w, errs: make([]error,
			n), over: make(chan struct{}), stop: make(chan struct{}), lanes: map[laneKey]*lane{},
		waiting: make([]*rendezvous, n), finished: make([]bool, n),
	}
}

// enterProcess adds a process with its cancel function and returns the number of processes so far.
func (s *run) enterProcess(cancel context.CancelCauseFunc) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancels = append(s.cancels, cancel)
	if s.err != nil {
		cancel(s.err)
	}
	return len(s.cancels)
}

// leave records that the workers of a process have returned, and waits for those of the other processes.
func (s *run) leave() {
	s.mu.Lock()
	s.left++
	last := s.left == s.world.processes
	s.mu.Unlock()
	if last {
		s.helpers.Wait()
		close(s.over)
	}
	<-s.over
}

// fail ends the run unless it has failed already.
func (s *run) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(err)
}

func (s *run) failLocked(err error) error {
	if s.err == nil {
		s.err = err
		close(s.stop)
		for _, cancel := range s.cancels {
			cancel(err)
		}
	}
	return s.err
}

// finish records that a rank's worker has returned. Members that wait for that rank in a rendezvous would
// wait forever, so that is an error.
func (s *run) finish(rank int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished[rank], s.waiting[rank] = true, nil
	if err != nil {
		s.failLocked(&comm.PeerError{Rank: rank, Err: err})
		return
	}
	var left []comm.Side
	for _, l := range s.lanes {
		for _, m := range l.open {
			if m.WaitsFor(rank) {
				left = append(left, m.Side(m.FirstOther(-1)))
			}
		}
	}
	if left != nil {
		slices.SortFunc(left, func(a, b comm.Side) int {
			return cmp.Or(a.Rank-b.Rank, strings.Compare(a.Call,
				b.Call))
		})
		s.failLocked(&comm.DeadlockError{Sides: append(left, comm.Side{Rank: rank})})
	}
}

// arrival is a member's arrival at a rendezvous.
type arrival struct {
	m    *rendezvous
	slot int
	last bool // the member completed the rendezvous, so it has to begin the work
}

// enter adds a member's call to its next rendezvous.
func (s *run) enter(rank int, c *comm.Call) (arrival, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return arrival{}, s.err
	}
	if s.finished[rank] {
		return arrival{}, fmt.Errorf("rank %d: %v after its worker returned", rank, c)
	}
	s.waiting[rank] = nil
	l, slot := s.lane(c)
	m := l.next(slot)
	m.Calls[slot] = c
	if err := m.Agree(slot); err != nil {
		return arrival{}, s.failLocked(err)
	}
	m.missing-- // only now: a rendezvous with no member missing is always completed
	if m.missing == 0 {
		s.close(l, m)
		return arrival{m, slot, true}, nil
	}
	for other, r := range l.ranks {
		if m.Calls[other] == nil && s.finished[r] {
			return arrival{}, s.failLocked(&comm.DeadlockError{Sides: []comm.Side{m.Side(slot), {Rank: r}}})
		}
	}
	return arrival{m: m, slot: slot}, nil
}

// wait returns when the rendezvous's work is done; the member's array is not read after that. A complete
// rendezvous is always worked off, even in a failed run. An incomplete one has not touched any array, so
// waiting for it can be given up.
func (s *run) wait(rank int, v arrival) (comm.Result, error) {
	m := v.m
	if err := s.await(rank, m); err != nil {
		return comm.Result{}, err
	}
	s.work(m)
	<-m.done
	if m.err != nil {
		return comm.Result{}, m.err
	}
	return m.plan.Results[v.slot], nil
}

// await returns when all members have arrived and the work is planned.
func (s *run) await(rank int, m *rendezvous) error {
	stop, err := s.block(rank, m)
	if err != nil {
		return err
	}
	select {
	case <-m.ready:
		return nil
	case <-stop:
	}
	s.mu.Lock()
	left := m.missing > 0
	s.mu.Unlock()
	if left {
		return s.err
	}
	<-m.ready
	return nil
}

// block records what the rank waits for and checks whether this closes a deadlock. It returns the channel
// that ends the wait early; for a complete rendezvous it is nil, which never does.
func (s *run) block(rank int, m *rendezvous) (stop <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.missing == 0 {
		return nil, nil
	}
	if s.err != nil {
		return nil, s.err
	}
	s.waiting[rank] = m
	if ring := s.ring(rank); ring != nil {
		return nil, s.failLocked(s.deadlock(ring))
	}
	return s.stop, nil
}
