package inproc

import (
	"slices"

	"github.com/galley-ml/galley/internal/comm"
)

// A rank that waits in a meeting needs all members that have not come. A rank has one goroutine, so one that
// waits itself cannot come before its own meeting is complete. Hence ranks are stuck exactly if the graph of
// who needs whom has a cycle, or leads to a rank that has finished. Edges appear only when a rank begins to
// wait, or finishes: that is where the run looks, and it finds a deadlock among some ranks while others still
// compute. What looks like a deadlock of all live ranks always holds such a cycle, since each of them needs
// someone.

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

// deadlock returns the error of a ring: its ranks, then the others that wait.
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
