package process

import (
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/galley-ml/galley/internal/comm"
)

// rendezvous is one collective as this process sees it.
type rendezvous struct {
	comm.Rendezvous
	lane    *lane
	locals  int           // the number of members of this process that have not arrived
	remotes int           // the number of other processes whose note has not arrived
	long    bool          // operands are too long for notes
	mine    []uint32      // by index in lane.others: the number of the first message to it
	theirs  []uint32      // and of the first message from it
	sent    comm.Transfer // what was sent before the rendezvous was complete; nil if nothing was

	ready chan struct{} // closed when the plan has been made, or err is set because it cannot be
	plan  *comm.Plan
	taken atomic.Int64 // pieces that a goroutine has taken
	left  atomic.Int64 // pieces that are not done, plus the exchange
	// carried is set by the goroutine that does the exchange with other processes.
	carried  atomic.Bool
	exchange bool
	done     chan struct{} // closed when nothing is left
	err      error         // to be read after ready, or done
}

func newRendezvous(l *lane, seq int) *rendezvous {
	m := &rendezvous{
		Rendezvous: comm.NewRendezvous(l.ranks, seq), lane: l, remotes: len(l.others), ready: make(chan struct{}),
		done: make(chan struct{}), mine: make([]uint32, len(l.others)), theirs: make([]uint32, len(l.others)),
	}
	m.Local = l.local
	for _, here := range l.local {
		if here {
			m.locals++
		}
	}
	return m
}

// firstLocal returns the first slot of this process whose member has arrived; -1 if there is none.
func (m *rendezvous) firstLocal() int {
	for slot, c := range m.Calls {
		if c != nil && m.Local[slot] {
			return slot
		}
	}
	return -1
}

// missing reports whether some members have not arrived.
func (m *rendezvous) missing() bool { return m.locals > 0 || m.remotes > 0 }

// arrival is a member's arrival at a rendezvous.
type arrival struct {
	m    *rendezvous
	slot int
	last bool // the member completed the rendezvous, so it has to begin the work
}

// enter adds the call of a member of this process to its next rendezvous.
func (s *run) enter(rank int, c *comm.Call) (arrival, error) {
	p := s.world.p
	p.mu.Lock()
	if s.err != nil || s.finished[rank] {
		defer p.mu.Unlock()
		if s.err != nil {
			return arrival{}, s.err
		}
		return arrival{}, fmt.Errorf("rank %d: %v after its worker returned", rank, c)
	}
	s.waiting[rank] = waiting{}
	l, slot := s.lane(c)
	m := l.next(slot)
	m.Calls[slot] = c
	err := m.Agree(slot)
	if err == nil {
		err = s.unreachable(m, slot)
	}
	if err != nil {
		p.mu.Unlock()
		return arrival{}, s.fail(err)
	}
	m.locals--
	var text []byte
	if m.locals == 0 && len(l.others) > 0 {
		text = s.arrivalNote(m)
	}
	last := !m.missing()
	if last {
		l.close(m)
	}
	for i, other := range l.others {
		if text != nil { // under the lock, so that notes leave in the order of rendezvous
			p.post(other, binary.LittleEndian.AppendUint32(text, m.mine[i])) // which copies it
		}
	}
	if text != nil && m.long {
		s.sendEarly(m)
	}
	p.mu.Unlock()
	return arrival{m, slot, last}, nil
}

// unreachable returns an error if the rendezvous needs a rank that can never arrive.
func (s *run) unreachable(m *rendezvous, slot int) error {
	for _, rank := range m.Missing() {
		if s.rankFinished(rank) {
			return &comm.DeadlockError{Sides: []comm.Side{m.Side(slot), {Rank: rank}}}
		}
	}
	return nil
}

// arrivalNote returns the note about this process's members for the other processes, without message numbers.
func (s *run) arrivalNote(m *rendezvous) []byte {
	l, p := m.lane, s.world.p
	size := 0
	for slot, here := range l.local {
		if here {
			size = max(size, len(m.Calls[slot].Operand()))
		}
	}
	short := size*len(l.ranks) <= p.short
	m.long = m.long || !short
	room := 256
	if short {
		room += size * len(l.ranks)
	}
	b := append(make([]byte, 0, room), byte(arrivedNote))
	b = appendCount(appendCount(b, s.world.id), s.number)
	b = appendString(b, l.wire)
	b = append(appendCount(b, m.Seq), flag(short))
	for i, other := range l.others {
		m.mine[i] = p.number(other, s.messages(m, other))
		s.sums[other] += l.hash * uint64(2*m.Seq+1)
	}
	for slot, here := range l.local {
		if here {
			b = m.Calls[slot].AppendSignature(b)
		}
	}
	for slot, here := range l.local {
		if here && short {
			b = append(b, m.Calls[slot].Operand()...)
		}
	}
	return b
}

func flag(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// handleArrival handles the note of another process whose members have arrived.
func (s *run) handleArrival(from int, r *reader) {
	p := s.world.p
	if len(r.rest) < 4 {
		r.bad = true
		return
	}
	end := len(r.rest) - 4
	first := binary.LittleEndian.Uint32(r.rest[end:])
	r.rest = r.rest[:end]
	wire := r.bytes()
	seq, short := r.count(1<<40), r.byte() == 1
	p.mu.Lock()
	if s.err != nil || r.bad {
		p.mu.Unlock()
		return
	}
	m, err := s.arrive(from, wire, seq, short, first, r)
	if m == nil && err == nil {
		r.bad = true
	}
	last := err == nil && m != nil && !m.missing()
	if last {
		m.lane.close(m)
	}
	p.mu.Unlock()
	switch {
	case err != nil:
		s.fail(err)
	case last:
		s.begin(m)
	}
}

// arrive adds the calls of another process to their rendezvous; it returns nil if the note is invalid.
func (s *run) arrive(from int, wire []byte, seq int, short bool, first uint32,
	r *reader) (*rendezvous, error) {
	l := s.laneOf(wire)
	if l == nil || seq < l.base || seq > l.base+1<<20 {
		return nil, nil
	}
	at := slices.Index(l.others, from)
	if at < 0 {
		return nil, nil
	}
	m := l.at(seq)
	m.theirs[at] = first
	m.long = m.long || !short
	if !m.take(from, short, r) {
		return nil, nil
	}
	m.remotes--
	for slot, owner := range l.owner {
		if owner == from {
			if err := m.Agree(slot); err != nil {
				return m, err
			}
		}
	}
	return m, nil
}

// take reads the calls of a process's members, and their operands if the note has them.
func (m *rendezvous) take(from int, short bool, r *reader) bool {
	l := m.lane
	var err error
	for slot, owner := range l.owner {
		if owner != from {
			continue
		}
		if m.Calls[slot] != nil {
			return false
		}
		if m.Calls[slot], r.rest, err = comm.ParseSignature(r.rest, l.groups[slot]); err != nil {
			return false
		}
	}
	for slot, owner := range l.owner {
		if owner == from && short {
			if r.rest, err = m.Calls[slot].Fill(r.rest); err != nil {
				return false
			}
		}
	}
	return len(r.rest) == 0
}

// inlineBytes is the most work that the goroutine which completes a rendezvous does at once: waking others
// would take longer than the work.
const inlineBytes = 64 << 10

// begin plans the work of a complete rendezvous.
func (s *run) begin(m *rendezvous) {
	if m.Shared = !m.long; m.long {
		m.dropOperands()
	}
	if m.plan, m.err = comm.NewPlan(&m.Rendezvous); m.err != nil {
		if first := s.fail(m.err); first != nil { // another process may have reported the same mistake before
			m.err = first
		}
		m.plan = &comm.Plan{Results: m.plan.Results}
	} else {
		s.world.count(m)
	}
	left := len(m.plan.Pieces)
	m.exchange = len(m.plan.Outgoing)+len(m.plan.Incoming)+len(m.plan.Reductions) > 0
	if m.exchange {
		left++
	}
	m.left.Store(int64(left))
	switch {
	case left == 0:
		close(m.done)
	case !m.exchange && m.plan.Bytes <= inlineBytes:
		s.work(m)
	case !s.awaited(m):
		s.helped.Store(true)
		s.helpers.Go(func() { s.carry(m, false) })
	}
	close(m.ready)
}

// dropOperands drops the operands received in notes: if those of one process are too long for a note, all are
// sent.
func (m *rendezvous) dropOperands() {
	for slot, c := range m.Calls {
		if !m.Local[slot] {
			c.In = none
		}
	}
}

// awaited reports whether a member of this process waits for the rendezvous, and so will do its work.
func (s *run) awaited(m *rendezvous) bool {
	s.world.p.mu.Lock()
	defer s.world.p.mu.Unlock()
	for _, w := range s.waiting {
		if w.m == m {
			return true
		}
	}
	return false
}

// wait returns when the rendezvous's work is done; the member's array is not read after that.
func (s *run) wait(rank int, v arrival) (comm.Result, error) {
	m := v.m
	if err := s.block(rank, v); err != nil {
		return comm.Result{}, err
	}
	s.until(m, m.ready)
	if m.plan == nil {
		return comm.Result{}, m.err
	}
	s.carry(m, true)
	s.until(m, m.done)
	if m.err != nil {
		return comm.Result{}, m.err
	}
	return m.plan.Results[v.slot], nil
}

// until waits for a channel to be closed, and drives the transport meanwhile if other processes take part in
// the rendezvous.
func (s *run) until(m *rendezvous, c <-chan struct{}) {
	if len(m.lane.others) > 0 {
		s.world.p.transport.Drive(c, nil)
		return
	}
	<-c
}

// block records what the rank waits for and checks whether this closes a deadlock.
func (s *run) block(rank int, v arrival) error {
	p := s.world.p
	p.mu.Lock()
	if s.err != nil && v.m.missing() {
		defer p.mu.Unlock()
		return s.err
	}
	s.waits++
	s.waiting[rank] = waiting{m: v.m, slot: v.slot, number: s.waits, since: time.Now()}
	if !v.m.missing() {
		p.mu.Unlock()
		return nil
	}
	ring := s.follow(path{asks: rank, wait: s.waits}, rank, false)
	p.mu.Unlock()
	if ring != nil {
		return s.fail(ring)
	}
	return nil
}

// work does pieces of the rendezvous until all are taken. Any member of this process may do any piece.
func (s *run) work(m *rendezvous) {
	pieces := m.plan.Pieces
	i := int(m.taken.Add(1)) - 1
	if i >= len(pieces) {
		return
	}
	mem := s.world.p.scratch.Get().(*comm.Scratch)
	for ; i < len(pieces); i = int(m.taken.Add(1)) - 1 {
		s.do(m, pieces[i], mem)
	}
	s.world.p.scratch.Put(mem)
}

// do does one piece.
func (s *run) do(m *rendezvous, p comm.Piece, mem *comm.Scratch) {
	defer m.over()
	defer s.bug(m)
	p.Do(mem)
}

// bug turns a panic in a rendezvous's work into its error: other members must not wait forever.
func (s *run) bug(m *rendezvous) {
	if v := recover(); v != nil {
		err := fmt.Errorf("collective: %v: %w", m.Calls[0], &comm.PanicError{Value: v, Stack: debug.Stack()})
		s.failRendezvous(m, err)
	}
}

// failRendezvous makes err the error of the rendezvous and of the run.
func (s *run) failRendezvous(m *rendezvous, err error) {
	err = s.fail(err)
	s.world.p.mu.Lock()
	defer s.world.p.mu.Unlock()
	m.err = err
}

// isOver reports whether a rendezvous's work is done.
func (m *rendezvous) isOver() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// over records that one piece, or the exchange, is done.
func (m *rendezvous) over() {
	if m.left.Add(-1) == 0 {
		close(m.done)
	}
}
