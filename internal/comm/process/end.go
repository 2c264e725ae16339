package process

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/galley-ml/galley/internal/comm"
)

// A run ends with one round of notes: each process sends the others how its workers ended and, for each other
// process, a checksum of the rendezvous with it that they arrived at. From these all processes conclude the
// same: the failure, and whether a collective was started that others never joined. Only in that case there
// is a second round, in which they send what it was.

// ending is how a run ended in one process.
type ending struct {
	failure error    // that it found itself
	failed  bool     // it was notified of one: the process that found it reports it
	errs    []error  // *comm.PeerError: the other errors of its workers
	sums    []uint64 // by process
}

// The first byte of a note of an ending.
const (
	noFailure byte = iota
	ownFailure
	remoteFailure
)

func (s *run) appendEnding(b []byte, e ending) []byte {
	switch {
	case e.failure != nil:
		b = appendError(append(b, ownFailure), e.failure)
	case e.failed:
		b = append(b, remoteFailure)
	default:
		b = append(b, noFailure)
	}
	b = appendCount(b, len(e.errs))
	for _, err := range e.errs {
		b = appendError(b, err)
	}
	for _, sum := range e.sums {
		b = binary.LittleEndian.AppendUint64(b, sum)
	}
	return b
}

func (s *run) readEnding(r *reader) ending {
	e := ending{sums: make([]uint64, s.world.p.size)}
	kind := r.byte()
	r.bad = r.bad || kind > remoteFailure
	if kind == ownFailure {
		e.failure = r.error(s.world.Size(), 0)
	}
	e.failed = kind != noFailure
	for range r.length() {
		e.errs = append(e.errs, r.error(s.world.Size(), 0))
	}
	for i := range e.sums {
		e.sums[i] = r.uint64()
	}
	return e
}

// leave ends the run in this process, waits for the others, and returns what all of them return.
func (s *run) leave() error {
	p := s.world.p
	p.mu.Lock()
	s.leaving, s.left = true, time.Now()
	e := ending{failure: s.own, failed: s.err != nil, errs: s.ownErrors(), sums: slices.Clone(s.sums)}
	p.mu.Unlock()
	p.postAll(s.appendEnding(header(endNote, s.world.id, s.number), e))
	s.end(p.rank, e)
	p.transport.Drive(s.over, nil)
	err := s.verdict()
	if err == nil && !s.sumsAgree() {
		err = s.unfinishedError()
	}
	if err != nil {
		s.failRemote(err)
	}
	s.waitHelpers()
	p.mu.Lock()
	defer p.mu.Unlock()
	s.world.current = nil
	if err != nil {
		p.setOver(err)
	}
	return err
}

// waitHelpers waits for the work that continues in the background.
func (s *run) waitHelpers() {
	if !s.helped.Load() {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.helpers.Wait()
	}()
	s.world.p.transport.Drive(done, nil)
}

// ownErrors returns the other errors of this process's workers, without repetitions of the failure.
func (s *run) ownErrors() []error {
	var list []error
	for rank, err := range s.errs {
		if err != nil && !errors.Is(err, s.err) && !errors.Is(err, context.Canceled) {
			list = append(list, &comm.PeerError{Rank: rank, Err: err})
		}
	}
	return list
}

// end records that a process has ended. A rank that waits for one of its ranks would wait forever.
func (s *run) end(process int, e ending) {
	mu := &s.world.p.mu
	mu.Lock()
	if s.endings[process] != nil {
		mu.Unlock()
		return
	}
	s.endings[process] = &e
	if s.missing--; s.missing == 0 {
		close(s.over)
	}
	var failure error
	switch {
	case s.err != nil || s.leaving:
	case e.failure != nil: // the note of its failure may arrive after the note of its end
		s.stopAll(e.failure)
	case !e.failed:
		failure = s.abandoned(process)
	case s.missing == 1: // only this process is left, and the one that found the failure has reported it
		failure = fmt.Errorf("process %d %s", process, unreportedText)
	}
	mu.Unlock()
	if failure != nil {
		s.fail(failure)
	}
}

// abandoned returns an error if ranks wait for ranks of a process that has ended, and nil
// otherwise.
func (s *run) abandoned(process int) error {
	owner := s.world.owner
	left := s.waitingFor(func(rank int) bool { return owner[rank] == process })
	if left == nil {
		return nil
	}
	e := &comm.DeadlockError{Sides: left}
	for rank := range owner {
		for _, side := range left {
			if owner[rank] == process && slices.Contains(side.Waits, rank) {
				e.Sides = append(e.Sides, comm.Side{Rank: rank})
				break
			}
		}
	}
	return e
}

// verdict returns the failure of the first process that found one, and the other errors of workers: the same
// in all processes.
func (s *run) verdict() error {
	s.world.p.mu.Lock()
	defer s.world.p.mu.Unlock()
	var all []error
	for _, e := range s.endings {
		if e.failure != nil {
			all = append(all, e.failure)
			break
		}
	}
	if all == nil {
		return s.err // of a lost process, which ends without a note
	}
	first, _ := all[0].(*comm.PeerError)
	for _, e := range s.endings {
		for _, err := range e.errs {
			if peer, ok := err.(*comm.PeerError); !ok || first == nil || peer.Rank != first.Rank {
				all = append(all, err)
			}
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}

// sumsAgree reports whether any two processes arrived at the same rendezvous.
func (s *run) sumsAgree() bool {
	for p, e := range s.endings {
		for q, f := range s.endings {
			if e.sums[q] != f.sums[p] {
				return false
			}
		}
	}
	return true
}

// unfinishedError returns the error for collectives that were started and that some members never joined.
func (s *run) unfinishedError() error {
	p := s.world.p
	p.mu.Lock()
	sides := s.waitingFor(func(int) bool { return true })
	p.mu.Unlock()
	p.postAll(appendSides(header(leftNote, s.world.id, s.number), sides))
	s.addUnfinished(p.rank, sides)
	p.transport.Drive(s.allReported, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	sortSides(s.sides)
	e := &comm.DeadlockError{Sides: slices.Clone(s.sides)}
	seen := map[int]bool{}
	for _, side := range s.sides {
		for _, rank := range side.Waits {
			if !seen[rank] {
				seen[rank] = true
				e.Sides = append(e.Sides, comm.Side{Rank: rank})
			}
		}
	}
	return e
}

// addUnfinished records the unfinished collectives of one process.
func (s *run) addUnfinished(process int, sides []comm.Side) {
	mu := &s.world.p.mu
	mu.Lock()
	defer mu.Unlock()
	if s.reported[process] {
		return
	}
	s.reported[process] = true
	s.sides = append(s.sides, sides...)
	if s.notReported--; s.notReported == 0 {
		close(s.allReported)
	}
}
