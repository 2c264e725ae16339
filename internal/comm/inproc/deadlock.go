package inproc

import (
	"slices"

	"github.com/galley-ml/galley/internal/comm"
)

// A rank that waits in a rendezvous needs all members that have not arrived. A rank has one goroutine, so
// while it waits it cannot arrive at another rendezvous. Hence ranks are deadlocked exactly if the graph of
// which rank needs which has a cycle, or leads to a rank that has finished. Edges are added only when a rank
// begins to wait or finishes, so the run searches the graph then, and finds a deadlock among some ranks while
// others still compute. If all live ranks are stuck there is always a cycle, since each of them needs another
// one.

// ring returns a cycle of waiting ranks through the given one, which has just begun to wait, or nil.
func (s *run) ring(rank int) []int {
	seen := make([]bool, len(s.waiting))
	var path []int
	var visit func(r int) bool
	visit = func(r int) bool {
		m := s.waiting[r]
		if m == nil || seen[r] {
			return false
		}
		seen[r] = true
		path = append(path, r)
		for slot, next := range m.Ranks {
			if m.Calls[slot] == nil && (next == rank || visit(next)) {
				return true
			}
		}
		path = path[:len(path)-1]
		return false
	}
	if !visit(rank) {
		return nil
	}
	return path
}

// deadlock returns the error for a cycle: its ranks, then the others that wait.
func (s *run) deadlock(ring []int) error {
	e := &comm.DeadlockError{}
	for _, r := range ring {
		e.Sides = append(e.Sides, s.waitingSide(r))
	}
	for r, m := range s.waiting {
		if m != nil && m.missing > 0 && !slices.Contains(ring, r) {
			e.Sides = append(e.Sides, s.waitingSide(r))
		}
	}
	return e
}

func (s *run) waitingSide(rank int) comm.Side {
	m := s.waiting[rank]
	for slot, r := range m.Ranks {
		if r == rank && m.Calls[slot] != nil {
			return m.Side(slot)
		}
	}
	return comm.Side{Rank: rank}
}
