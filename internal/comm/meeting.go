package comm

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// meeting is one collective: its members' calls and, once all are there, its work.
type meeting struct {
	lane    *lane
	seq     int
	calls   []*Call // by slot; nil until the member comes
	missing int     // how many are nil

	ready   chan struct{} // closed when pieces and results stand
	pieces  []piece
	results []Result
	taken   atomic.Int64
	left    atomic.Int64
	done    chan struct{} // closed when every piece is done
	err     error         // to be read after done
}

func newMeeting(l *lane, seq int) *meeting {
	return &meeting{
		lane: l, seq: seq, calls: make([]*Call, len(l.ranks)), missing: len(l.ranks),
		ready: make(chan struct{}), done: make(chan struct{}),
	}
}

// lacks reports whether the meeting waits for the rank.
func (m *meeting) lacks(rank int) bool {
	for slot, r := range m.lane.ranks {
		if r == rank && m.calls[slot] == nil {
			return true
		}
	}
	return false
}

// firstBut is the first slot that has come, other than the given one; -1 if there is none.
func (m *meeting) firstBut(slot int) int {
	for i, c := range m.calls {
		if c != nil && i != slot {
			return i
		}
	}
	return -1
}

// absent are the ranks that have not come.
func (m *meeting) absent() []int {
	var ranks []int
	for slot, r := range m.lane.ranks {
		if m.calls[slot] == nil {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// side is what errors say of the member of a slot.
func (m *meeting) side(slot int) Side {
	return Side{Rank: m.lane.ranks[slot], Call: m.calls[slot].text(fmt.Sprintf(" #%d", m.seq)), Waits: m.absent()}
}

func (m *meeting) mismatch(what string, later, earlier int) error {
	e := &MismatchError{What: what, Sides: [2]Side{m.side(later), m.side(earlier)}}
	e.Sides[0].Waits, e.Sides[1].Waits = nil, nil
	return e
}

// inlineBytes is how much work the last member to come does at once: less than waking others for it would take.
const inlineBytes = 64 << 10

// begin turns the calls of a complete meeting into work.
func (s *run) begin(m *meeting) {
	p := newPlan(m)
	if err := p.safely(); err != nil {
		m.err = err
		s.fail(err)
		p.pieces = nil
	}
	m.pieces, m.results = p.pieces, p.results
	m.left.Store(int64(len(m.pieces)))
	if m.err == nil {
		s.world.count(m)
	}
	switch {
	case len(m.pieces) == 0:
		close(m.done)
	case p.bytes <= inlineBytes:
		s.work(m)
	default:
		s.helpers.Go(func() { s.work(m) })
	}
	close(m.ready)
}

// work does pieces of the meeting until none is left to take. Any member may do any piece: what a piece computes does
// not depend on who does it.
func (s *run) work(m *meeting) {
	i := int(m.taken.Add(1)) - 1
	if i >= len(m.pieces) {
		return
	}
	mem := s.world.scratch.Get().(*scratch)
	for ; i < len(m.pieces); i = int(m.taken.Add(1)) - 1 {
		s.do(m, m.pieces[i], mem)
	}
	s.world.scratch.Put(mem)
}

// do does one piece. A panic in it is a bug of ours; it must not leave the other members waiting.
func (s *run) do(m *meeting, p piece, mem *scratch) {
	defer func() {
		if v := recover(); v != nil {
			s.fail(fmt.Errorf("collective: %v: %w", m.calls[0], &PanicError{Value: v, Stack: debug.Stack()}))
			s.mu.Lock()
			m.err = s.err
			s.mu.Unlock()
		}
		if m.left.Add(-1) == 0 {
			close(m.done)
		}
	}()
	p.job.do(mem, p.lo, p.hi)
}
