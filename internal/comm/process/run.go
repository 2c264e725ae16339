package process

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/galley-ml/galley/internal/comm"
)

// run is the state of one run of a world in this process. The process's lock guards it.
type run struct {
	world   *World
	number  int
	errs    []error        // what the workers returned, by rank; to be read when all have
	helpers sync.WaitGroup // goroutines that do a rendezvous's work in the background
	helped  atomic.Bool    // whether there have been any
	// inFlight is the number of collectives that ranks of this process have started and not waited for.
	inFlight atomic.Int64
	cancel   context.CancelCauseFunc
	stop     chan struct{} // closed when the run fails

	inbox    []note // received while another was handled
	handling bool

	err      error // the first failure known here; no rendezvous becomes complete after it
	own      error // the same, if it was found in this process
	lanes    map[laneKey]*lane
	wires    map[string]*lane    // lanes by their name in notes
	waiting  []waiting           // by rank
	waits    int                 // the number of waits so far
	finished []bool              // by rank of this process
	probes   map[int]*probeState // by the rank that sent the probe

	sums        []uint64 // by process: checksum of the rendezvous that notes to it were about
	endings     []*ending
	missing     int           // the number of processes that have not ended
	over        chan struct{} // closed when none is missing
	leaving     bool          // this process has sent the note of its end
	left        time.Time     // when it did
	notReported int           // the number of processes that have not sent their unfinished collectives
	reported    []bool        // by process
	sides       []comm.Side   // the unfinished collectives of all processes
	allReported chan struct{} // closed when all have sent them
}

// waiting is what a rank waits for. It may stay set after the rendezvous is complete, which does no harm.
type waiting struct {
	m      *rendezvous
	slot   int
	number int // among all waits of the run
	since  time.Time
	probed bool // whether probes were sent
}

func newRun(w *World, number int, cancel context.CancelCauseFunc) *run {
	n := len(w.owner)
	return &run{
		world: w, number: number, cancel: cancel, errs: make([]error, n), stop: make(chan struct{}),
		lanes: map[laneKey]*lane{}, wires: map[string]*lane{}, waiting: make([]waiting, n),
		finished: make([]bool, n), probes: map[int]*probeState{}, sums: make([]uint64, w.p.size),
		endings: make([]*ending, w.p.size), missing: w.p.size, over: make(chan struct{}),
		notReported: w.p.size, reported: make([]bool, w.p.size),
		allReported: make(chan struct{}),
	}
}

// get handles a note, or queues it for the goroutine that handles one now: notes of one sender stay in order.
func (s *run) get(n note) {
	mu := &s.world.p.mu
	mu.Lock()
	if s.handling {
		s.inbox = append(s.inbox, n.kept())
		mu.Unlock()
		return
	}
	s.handling = true
	mu.Unlock()
	s.handle(n)
	s.drain()
}

// drain handles the queued notes.
func (s *run) drain() {
	mu := &s.world.p.mu
	for {
		mu.Lock()
		if len(s.inbox) == 0 {
			s.inbox, s.handling = nil, false
			mu.Unlock()
			return
		}
		n := s.inbox[0]
		s.inbox = s.inbox[1:]
		mu.Unlock()
		s.handle(n)
	}
}

// handle handles a note. A malformed one is a failure: the processes may run different versions.
func (s *run) handle(n note) {
	r := &reader{rest: n.body}
	switch n.kind {
	case arrivedNote:
		s.handleArrival(n.from, r)
	case failNote:
		if err := r.error(s.world.Size(), 0); !r.bad {
			s.failRemote(err)
		}
	case endNote:
		if e := s.readEnding(r); !r.bad {
			s.end(n.from, e)
		}
	case leftNote:
		if sides := r.sides(s.world.Size()); !r.bad {
			s.addUnfinished(n.from, sides)
		}
	case probeNote:
		s.getProbe(r)
	case lostNote:
		s.lose(n.from, n.lost)
	}
	if r.bad {
		s.fail(fmt.Errorf("process %d: a note of %d bytes cannot be read: are all processes of one version?",
			n.from, len(n.body)))
	}
}

// lose ends the run because a process is lost, unless the note of that process's end has arrived.
func (s *run) lose(process int, err error) {
	s.world.p.mu.Lock()
	ended := s.endings[process] != nil
	s.world.p.mu.Unlock()
	if ended {
		return
	}
	s.breakOff(err)
	s.end(process, ending{})
	s.addUnfinished(process, nil)
}

// fail ends the run in all processes unless it has failed already, or has sent the others how it ended.
func (s *run) fail(err error) error {
	p := s.world.p
	p.mu.Lock()
	tell := s.err == nil && !s.leaving
	if tell {
		s.own = err
		s.stopAll(err)
	}
	failed := s.err
	p.mu.Unlock()
	if tell {
		p.postAll(appendError(header(failNote, s.world.id, s.number), err))
	}
	return failed
}

// breakOff ends the run even after it has sent the others how it ended: the transport is broken.
func (s *run) breakOff(err error) {
	s.fail(err)
	s.failRemote(err)
}

// failRemote ends the run because another process has failed.
func (s *run) failRemote(err error) {
	s.world.p.mu.Lock()
	defer s.world.p.mu.Unlock()
	if s.err == nil {
		s.stopAll(err)
	}
}

// stopAll ends all waits for rendezvous that are not complete.
func (s *run) stopAll(err error) {
	s.err = err
	close(s.stop)
	s.cancel(err)
	for _, l := range s.lanes {
		for _, m := range l.open {
			m.err = err
			close(m.ready)
		}
		l.open = nil
	}
}

// finish records that a rank's worker has returned. Members that wait for that rank in a rendezvous would
// wait forever, so that is an error.
func (s *run) finish(rank int, err error) {
	mu := &s.world.p.mu
	mu.Lock()
	s.finished[rank], s.waiting[rank] = true, waiting{}
	failure := error(nil)
	if err != nil {
		failure = &comm.PeerError{Rank: rank, Err: err}
	} else if left := s.waitingFor(func(r int) bool { return r == rank }); left != nil {
		failure = &comm.DeadlockError{Sides: append(left, comm.Side{Rank: rank})}
	}
	mu.Unlock()
	if failure != nil {
		s.fail(failure)
	}
}

// waitingFor returns the members of this process that wait in a rendezvous for one of the absent ranks,
// ordered by rank.
func (s *run) waitingFor(absent func(rank int) bool) []comm.Side {
	var sides []comm.Side
	for _, l := range s.lanes {
		for _, m := range l.open {
			if slot := m.firstLocal(); slot >= 0 && slices.ContainsFunc(m.Missing(), absent) {
				sides = append(sides, m.Side(slot))
			}
		}
	}
	sortSides(sides)
	return sides
}

func sortSides(sides []comm.Side) {
	slices.SortFunc(sides, func(a, b comm.Side) int {
		return cmp.Or(a.Rank-b.Rank, strings.Compare(a.Call, b.Call))
	})
}

// rankFinished reports whether a rank has finished, so that it can never arrive.
func (s *run) rankFinished(rank int) bool {
	owner := s.world.owner[rank]
	if owner == s.world.p.rank {
		return s.finished[rank]
	}
	return s.endings[owner] != nil && !s.endings[owner].failed
}
