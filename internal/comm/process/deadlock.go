package process

import (
	"fmt"
	"slices"
	"time"

	"github.com/galley-ml/galley/internal/comm"
)

// A rank that waits in a rendezvous needs all members that have not arrived. Ranks are deadlocked exactly if
// the graph of which rank needs which has a cycle, or leads to a rank that has finished. Within a process
// this is checked when a rank begins to wait. Across processes a rank that has waited for a while sends a
// probe to the process of each rank that it needs; that process forwards it if its rank waits, too, and has
// not arrived at the rendezvous in question. Only that process knows this for certain, and a rank that waits
// for one that has not arrived keeps waiting. So a probe that returns to the wait that sent it has found a
// true cycle, although it saw its edges at different times.

// path is a chain of waits, beginning with the wait of the rank that sent the probe.
type path struct {
	asks, wait int // the rank that sent the probe, and the number of its wait
	sides      []comm.Side
}

// probeState records the ranks of this process that probes of one wait have visited.
type probeState struct {
	wait int
	seen map[int]bool
}

// probeAfter is how long a rank waits before it sends probes, and how often waits are checked.
const probeAfter = 200 * time.Millisecond

// watch calls look periodically until the returned function is called.
func (p *Process) watch(look func(now time.Time)) (stop func()) {
	var timer *time.Timer
	over := false // guarded by the process's lock
	p.mu.Lock()
	defer p.mu.Unlock()
	timer = time.AfterFunc(probeAfter, func() {
		look(time.Now())
		p.mu.Lock()
		defer p.mu.Unlock()
		if !over {
			timer.Reset(probeAfter)
		}
	})
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		over = true
		timer.Stop()
	}
}

// look sends probes for ranks that have waited for long, and checks that other processes are alive.
func (s *run) look(now time.Time) {
	var failure error
	mu := &s.world.p.mu
	mu.Lock()
	for rank := range s.waiting {
		w := &s.waiting[rank]
		if s.err != nil || failure != nil || w.m == nil || !w.m.missing() || now.Sub(w.since) < probeAfter {
			continue
		}
		if !w.probed {
			w.probed = true
			failure = s.follow(path{asks: rank, wait: w.number}, rank, true)
		}
	}
	silent, err := s.world.p.silent(now, s.waitsFor)
	mu.Unlock()
	if failure != nil {
		s.fail(failure)
	}
	if err != nil {
		s.world.p.lose(silent, err)
	}
}

// follow goes from a waiting rank of this process to the ranks that it needs; with remote it sends probes to
// other processes. It returns the deadlock that it finds.
func (s *run) follow(at path, rank int, remote bool) error {
	w := s.waiting[rank]
	at.sides = append(slices.Clip(at.sides), w.m.Side(w.slot))
	for _, next := range w.m.Missing() {
		if s.world.owner[next] == s.world.p.rank {
			if err := s.examine(at, next, remote); err != nil {
				return err
			}
		} else if remote {
			s.world.p.post(s.world.owner[next], s.appendProbe(at, w.m, next))
		}
	}
	return nil
}

// examine examines a rank of this process that has not arrived at a rendezvous in which it is needed.
func (s *run) examine(at path, rank int, remote bool) error {
	w := s.waiting[rank]
	switch {
	case s.finished[rank]:
		return &comm.DeadlockError{Sides: append(at.sides, comm.Side{Rank: rank})}
	case w.m == nil || !w.m.missing():
		return nil
	case rank == at.asks && w.number == at.wait:
		return s.deadlock(at.sides)
	}
	for _, side := range at.sides {
		if side.Rank == rank {
			return nil // a cycle without the rank that sent the probe: probes of its own ranks find it
		}
	}
	if remote && !s.first(at, rank) {
		return nil
	}
	return s.follow(at, rank, remote)
}

// first reports whether this is the first time that probes of a wait visit a rank.
func (s *run) first(at path, rank int) bool {
	p := s.probes[at.asks]
	if p == nil || p.wait < at.wait {
		p = &probeState{at.wait, map[int]bool{}}
		s.probes[at.asks] = p
	}
	if p.wait > at.wait || p.seen[rank] {
		return false
	}
	p.seen[rank] = true
	return true
}

// deadlock returns the error for a cycle: its ranks, then the others of this process that wait.
func (s *run) deadlock(ring []comm.Side) error {
	e := &comm.DeadlockError{Sides: slices.Clone(ring)}
	for rank, w := range s.waiting {
		in := slices.ContainsFunc(ring, func(side comm.Side) bool { return side.Rank == rank })
		if w.m != nil && w.m.missing() && !in {
			e.Sides = append(e.Sides, w.m.Side(w.slot))
		}
	}
	return e
}

func (s *run) appendProbe(at path, m *rendezvous, target int) []byte {
	b := header(probeNote, s.world.id, s.number)
	b = appendSides(appendCount(appendCount(b, at.asks), at.wait), at.sides)
	return appendCount(appendCount(appendString(b, m.lane.wire), m.Seq), target)
}

// getProbe handles a probe from another process that needs a rank of this one.
func (s *run) getProbe(r *reader) {
	size := s.world.Size()
	at := path{asks: r.count(size - 1), wait: r.count(1 << 40), sides: r.sides(size)}
	wire, seq, target := r.string(), r.count(1<<40), r.count(size-1)
	if r.bad {
		return
	}
	mu := &s.world.p.mu
	mu.Lock()
	var err error
	if s.err == nil && s.world.owner[target] == s.world.p.rank && !s.hasArrived(wire, seq, target) {
		err = s.examine(at, target, true)
	}
	mu.Unlock()
	if err != nil {
		s.fail(err)
	}
}

// hasArrived reports whether a rank has arrived at a rendezvous.
func (s *run) hasArrived(wire string, seq, rank int) bool {
	l := s.wires[wire]
	if l == nil {
		return false
	}
	for slot, r := range l.ranks {
		if r == rank && l.came[slot] <= seq {
			return false
		}
	}
	return true
}

// askAfter is how long a process that is waited for may be silent before it is sent a liveness check.
const askAfter = time.Second / 2

// patience is how long a process that is waited for may be silent before it is considered lost. A live
// process answers liveness checks even while it computes.
const patience = 8 * time.Second

// silent returns a process that something waits for and that has been silent for too long, with a text of
// what waits. It sends liveness checks to those that have been silent for a while.
func (p *Process) silent(now time.Time, waits func(process int) (since time.Time, what string)) (int, error) {
	p.excuseSilence(now)
	for q := range p.size {
		if q == p.rank || p.lost[q] != nil || now.Sub(p.lastNote[q]) < askAfter {
			continue
		}
		since, what := waits(q)
		if what == "" {
			continue
		}
		if now.Sub(p.lastNote[q]) > p.patience && now.Sub(since) > p.patience {
			return q, fmt.Errorf("it has not answered for %v; %s", p.patience, what)
		}
		p.post(q, header(askNote, 0, 0))
	}
	return 0, nil
}

// excuseSilence does not count the time in which this process itself was suspended or did not check: notes
// may have arrived that it could not read, and on an overloaded machine the other processes are slow as well.
func (p *Process) excuseSilence(now time.Time) {
	held := now.Sub(p.checkedAt) - 2*probeAfter
	p.checkedAt = now
	if held <= 0 {
		return
	}
	for q, t := range p.lastNote {
		if p.lastNote[q] = t.Add(held); p.lastNote[q].After(now) {
			p.lastNote[q] = now
		}
	}
}

// waitsFor returns what in this process waits for another process, a rank or the end of the run, and since
// when.
func (s *run) waitsFor(process int) (since time.Time, what string) {
	if s.endings[process] != nil {
		return since, ""
	}
	if s.leaving {
		return s.left, "the run waits for its end"
	}
	for _, w := range s.waiting {
		if w.m == nil || !slices.Contains(w.m.lane.others, process) || w.m.isOver() {
			continue
		}
		absent := func(rank int) bool { return s.world.owner[rank] == process }
		if !w.m.missing() || slices.ContainsFunc(w.m.Missing(), absent) { // otherwise it waits for other processes
			return w.since, w.m.Side(w.slot).String()
		}
	}
	return since, ""
}
