package process

import (
	"fmt"
	"slices"
	"time"

	"github.com/galley-ml/galley/internal/comm"
)

// A rank that waits in a meeting needs all members that have not come. Ranks are stuck exactly if the graph
// of who needs whom has a cycle, or leads to a rank that has finished. Within a process that is seen when a
// rank begins to wait. Across processes a rank that has waited a while asks: a probe goes to the process of
// each rank that it needs, and on from there if that rank, too, waits and has not come to the meeting in
// question. It is there that this is known for certain; and a rank that waits for one that has not come still
// waits. So a probe that comes back to the wait that it began with has seen a true cycle, whenever it saw its
// parts.

// path is who needs whom, from the wait of a rank that asks.
type path struct {
	asks, wait int // the rank and the number of its wait
	sides      []comm.Side
}

// probed is the ranks of this process that probes of one wait have been at.
type probed struct {
	wait int
	seen map[int]bool
}

// tellAfter is how long a rank waits before it asks, and how often waits are looked at.
const tellAfter = 200 * time.Millisecond

// watch calls look every now and then, until the function that it returns is called.
func (p *Process) watch(look func(now time.Time)) (stop func()) {
	var timer *time.Timer
	over := false // guarded by the process's lock
	p.mu.Lock()
	defer p.mu.Unlock()
	timer = time.AfterFunc(tellAfter, func() {
		look(time.Now())
		p.mu.Lock()
		defer p.mu.Unlock()
		if !over {
			timer.Reset(tellAfter)
		}
	})
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		over = true
		timer.Stop()
	}
}

// look has ranks ask that have waited for long, and other processes say whether they are there.
func (s *run) look(now time.Time) {
	var failure error
	mu := &s.world.p.mu
	mu.Lock()
	for rank := range s.waiting {
		w := &s.waiting[rank]
		if s.err != nil || failure != nil || w.m == nil || !w.m.missing() || now.Sub(w.since) < tellAfter {
			continue
		}
		if !w.told {
			w.told = true
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

// follow goes from a waiting rank of this process to those that it needs, and with remote set to those of
// other processes, too. It is the deadlock that it finds.
func (s *run) follow(at path, rank int, remote bool) error {
	w := s.waiting[rank]
	at.sides = append(slices.Clip(at.sides), w.m.Side(w.slot))
	for _, next := range w.m.Absent() {
		if s.world.owner[next] == s.world.p.rank {
			if err := s.visit(at, next, remote); err != nil {
				return err
			}
		} else if remote {
			s.world.p.post(s.world.owner[next], s.appendProbe(at, w.m, next))
		}
	}
	return nil
}

// visit looks at a rank of this process that is needed in a meeting to which it has not come.
func (s *run) visit(at path, rank int, remote bool) error {
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
			return nil // a cycle without the one that asks: its own ranks find it
		}
	}
	if remote && !s.first(at, rank) {
		return nil
	}
	return s.follow(at, rank, remote)
}

// first reports whether a rank is visited for the first time by probes of a wait.
func (s *run) first(at path, rank int) bool {
	p := s.probes[at.asks]
	if p == nil || p.wait < at.wait {
		p = &probed{at.wait, map[int]bool{}}
		s.probes[at.asks] = p
	}
	if p.wait > at.wait || p.seen[rank] {
		return false
	}
	p.seen[rank] = true
	return true
}

// deadlock returns the error of a ring: its ranks, then the others of this process that wait.
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

func (s *run) appendProbe(at path, m *meeting, target int) []byte {
	b := header(probeNote, s.world.id, s.number)
	b = appendSides(appendCount(appendCount(b, at.asks), at.wait), at.sides)
	return appendCount(appendCount(appendString(b, m.lane.wire), m.Seq), target)
}

// getProbe takes the probe of another process, which needs a rank of this one.
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
	if s.err == nil && s.world.owner[target] == s.world.p.rank && !s.hasCome(wire, seq, target) {
		err = s.visit(at, target, true)
	}
	mu.Unlock()
	if err != nil {
		s.fail(err)
	}
}

// hasCome reports whether a rank has come to a meeting.
func (s *run) hasCome(wire string, seq, rank int) bool {
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

// askAfter is how long a process that is waited for may say nothing before it is asked whether it is there.
const askAfter = time.Second / 2

// patience is how long a process that is waited for may be silent before it counts as lost. Whatever it
// computes, it answers meanwhile.
const patience = 8 * time.Second

// silent returns a process for which something waits since a time, and which has said nothing for too long,
// and what waits. Those that have been silent for a while are asked.
func (p *Process) silent(now time.Time, waits func(process int) (since time.Time, what string)) (int, error) {
	p.forgive(now)
	for q := range p.size {
		if q == p.rank || p.lost[q] != nil || now.Sub(p.heard[q]) < askAfter {
			continue
		}
		since, what := waits(q)
		if what == "" {
			continue
		}
		if now.Sub(p.heard[q]) > p.patience && now.Sub(since) > p.patience {
			return q, fmt.Errorf("it has not answered for %v; %s", p.patience, what)
		}
		p.post(q, header(askNote, 0, 0))
	}
	return 0, nil
}

// forgive leaves out of account the time for which this process itself was held up, or did not look: notes
// may be there that it had no time for, and on a crowded machine the others have none either.
func (p *Process) forgive(now time.Time) {
	held := now.Sub(p.looked) - 2*tellAfter
	p.looked = now
	if held <= 0 {
		return
	}
	for q, t := range p.heard {
		if p.heard[q] = t.Add(held); p.heard[q].After(now) {
			p.heard[q] = now
		}
	}
}

// waitsFor returns since when a rank of this process, or the end of the run, waits for a process, and what it
// is.
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
		if !w.m.missing() || slices.ContainsFunc(w.m.Absent(), absent) { // else others are waited for
			return w.since, w.m.Side(w.slot).String()
		}
	}
	return since, ""
}
