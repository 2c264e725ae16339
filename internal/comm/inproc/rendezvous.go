package inproc

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/galley-ml/galley/internal/comm"
)

// rendezvous is one collective: its members' calls and, once all have arrived, its work.
type rendezvous struct {
	comm.Rendezvous
	missing int // the number of members that have not arrived

	ready chan struct{} // closed when the plan has been made
	plan  *comm.Plan
	taken atomic.Int64
	left  atomic.Int64
	done  chan struct{} // closed when every piece is done
	err   error         // to be read after done
}

func newRendezvous(l *lane, seq int) *rendezvous {
	return &rendezvous{
		Rendezvous: comm.NewRendezvous(l.ranks,
			seq), missing: len(l.ranks), ready: make(chan struct{}), done: make(chan struct{}),
	}
}

// inlineBytes is the most work that the last member to arrive does at once: waking others would take longer
// than the work.
const inlineBytes = 64 << 10

// begin plans the work of a complete rendezvous.
func (s *run) begin(m *rendezvous) {
	if m.plan, m.err = comm.NewPlan(&m.Rendezvous); m.err != nil {
		s.fail(m.err)
		m.plan.Pieces = nil
	}
	m.left.Store(int64(len(m.plan.Pieces)))
	if m.err == nil {
		s.world.count(m)
	}
	switch {
	case len(m.plan.Pieces) == 0:
		close(m.done)
	case m.plan.Bytes <= inlineBytes:
		s.work(m)
	default:
		s.helpers.Go(func() { s.work(m) })
	}
	close(m.ready)
}

// work does pieces of the rendezvous until all are taken. Any member may do any piece.
func (s *run) work(m *rendezvous) {
	pieces := m.plan.Pieces
	i := int(m.taken.Add(1)) - 1
	if i >= len(pieces) {
		return
	}
	mem := s.world.scratch.Get().(*comm.Scratch)
	for ; i < len(pieces); i = int(m.taken.Add(1)) - 1 {
		s.do(m, pieces[i], mem)
	}
	s.world.scratch.Put(mem)
}

// do does one piece. A panic in it is a bug of Galley; other members must not wait forever because of it.
func (s *run) do(m *rendezvous, p comm.Piece, mem *comm.Scratch) {
	defer func() {
		if v := recover(); v != nil {
			s.fail(fmt.Errorf("collective: %v: %w", m.Calls[0], &comm.PanicError{Value: v, Stack: debug.Stack()}))
			s.mu.Lock()
			m.err = s.err
			s.mu.Unlock()
		}
		if m.left.Add(-1) == 0 {
			close(m.done)
		}
	}()
	p.Do(mem)
}
