package pipeline

import "fmt"

// Simulator runs schedules against costs. Its zero value is ready; keeping one reuses its memory. It is not for
// concurrent use.
type Simulator struct {
	flow  flow
	table table
	line  Timeline

	cells   []float64 // when each was made; below zero: not yet
	cursor  []int     // the next action of each rank
	clock   []float64
	live    []float64 // bytes held by each rank
	count   []int     // micro-batches held by each rank, by stage
	waits   []int     // the cell that a rank waits for, or none
	ready   []int     // ranks that may go on
	links   []link
	heads   []int // first link of each rank, or none
	forward []int // link of each boundary towards the later stage
	back    []int
	spans   []Span
	has     [kinds]bool // kinds that the schedule uses
}

// link carries messages from one rank to another, one after the other.
type link struct {
	from, to, next int
	free           float64
}

// Simulate runs a schedule once.
func Simulate(s *Schedule, c Costs) (*Timeline, error) { return new(Simulator).Run(s, &c) }

// Run says when every action begins and ends if each rank does its actions in order as soon as it can and messages are
// sent in the background. The schedule should have passed Check; one that stalls is an error. The timeline is valid
// until the next Run.
func (m *Simulator) Run(s *Schedule, c *Costs) (*Timeline, error) {
	if err := shape(s); err != nil {
		return nil, err
	}
	if err := m.table.load(c, s.Stages); err != nil {
		return nil, err
	}
	if err := m.start(s); err != nil {
		return nil, err
	}
	if m.has[Input] && !m.table.split {
		return nil, fmt.Errorf("costs: schedule %s splits backward passes: want Input and Weight", s.Name)
	}
	if !m.drain() {
		if _, err := Check(s); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("schedule %s: stalls", s.Name)
	}
	m.finish()
	return &m.line, nil
}

// reset makes a slice of n values v, in old memory if it is large enough.
func reset[T any](old []T, n int, v T) []T {
	if cap(old) < n {
		old = make([]T, n)
	}
	old = old[:n]
	for i := range old {
		old[i] = v
	}
	return old
}

// start lays the tables of a schedule out.
func (m *Simulator) start(s *Schedule) error {
	if err := m.scan(s); err != nil {
		return err
	}
	m.flow = flow{s, m.has[SendForward] || m.has[RecvForward] || m.has[SendBackward] || m.has[RecvBackward]}
	ranks := len(s.Ranks)
	m.cells = reset(m.cells, m.flow.cells(), -1)
	m.cursor, m.clock, m.live = reset(m.cursor, ranks, 0), reset(m.clock, ranks, 0), reset(m.live, ranks, 0)
	m.waits, m.heads = reset(m.waits, ranks, none), reset(m.heads, ranks, none)
	m.count = reset(m.count, ranks, 0)
	m.links = m.links[:0]
	m.forward, m.back = reset(m.forward, s.Stages, none), reset(m.back, s.Stages, none)
	for i := range s.Stages - 1 {
		if a, b := s.Place[i], s.Place[i+1]; a != b {
			m.forward[i], m.back[i] = m.link(a, b), m.link(b, a)
		}
	}
	m.ready = m.ready[:0]
	for r := ranks - 1; r >= 0; r-- {
		m.ready = append(m.ready, r)
	}
	m.line.begin(s)
	if n := s.Len(); cap(m.spans) < n {
		m.spans = make([]Span, n)
	}
	used := 0
	for r, actions := range s.Ranks {
		m.line.Ranks[r] = m.spans[used : used : used+len(actions)]
		used += len(actions)
	}
	return nil
}

// scan refuses actions that would not fit the tables, and notes which kinds there are.
func (m *Simulator) scan(s *Schedule) error {
	clear(m.has[:])
	stages, micros := uint(s.Stages), uint(s.Micros)
	for _, actions := range s.Ranks {
		for i := range actions {
			a := &actions[i]
			bad := uint(a.Stage) >= stages || uint(a.Micro) >= micros || a.Kind >= kinds || a.Joined && i+1 == len(actions) ||
				a.Kind > Weight && uint(a.Peer()) >= stages
			if bad {
				_, err := Check(s)
				return err
			}
			m.has[a.Kind] = true
		}
	}
	return nil
}

// link finds or makes the link between two ranks.
func (m *Simulator) link(from, to int) int {
	for i := m.heads[from]; i != none; i = m.links[i].next {
		if m.links[i].to == to {
			return i
		}
	}
	m.links = append(m.links, link{from: from, to: to, next: m.heads[from]})
	m.heads[from] = len(m.links) - 1
	return m.heads[from]
}

// drain lets ranks go on until none can, and says whether all came to their end.
func (m *Simulator) drain() bool {
	for len(m.ready) > 0 {
		r := m.ready[len(m.ready)-1]
		m.ready = m.ready[:len(m.ready)-1]
		m.advance(r)
	}
	for r, actions := range m.flow.s.Ranks {
		if m.cursor[r] < len(actions) {
			return false
		}
	}
	return true
}

// advance runs a rank until it waits or ends.
func (m *Simulator) advance(r int) {
	actions := m.flow.s.Ranks[r]
	for m.cursor[r] < len(actions) {
		i := m.cursor[r]
		a := actions[i]
		t, ok := m.available(r, a, m.clock[r])
		if !ok {
			return
		}
		if !a.Joined {
			m.do(r, a, t, t+m.duration(a))
			m.cursor[r]++
			continue
		}
		b := actions[i+1]
		if t, ok = m.available(r, b, t); !ok {
			return
		}
		end := t + m.table.both(a, b)
		m.do(r, a, t, end)
		m.do(r, b, t, end)
		m.line.Work[r] -= end - t
		m.cursor[r] += 2
	}
}

// available is when the action's operands are there, not before t; or the rank waits for them.
func (m *Simulator) available(r int, a Action, t float64) (float64, bool) {
	c := m.flow.needs(a)
	if c == none {
		return t, true
	}
	if m.cells[c] < 0 {
		m.waits[r] = c
		return 0, false
	}
	return max(t, m.cells[c]), true
}

func (m *Simulator) duration(a Action) float64 {
	if !a.Kind.Computes() {
		return 0
	}
	return m.table.of(a)
}

// do notes that an action ran and hands its result on.
func (m *Simulator) do(r int, a Action, start, end float64) {
	m.clock[r] = end
	spans := &m.line.Ranks[r]
	*spans = append(*spans, Span{a, start, end})
	if a.Kind.Computes() {
		m.line.Work[r] += end - start
		m.account(r, a)
	}
	c := m.flow.makes(a)
	if c == none {
		return
	}
	at := end
	if i := m.flow.carried(a); i != none {
		at = m.send(a, i, end)
	}
	m.cells[c] = at
	if to := m.flow.s.Place[m.flow.stageOf(c)]; m.waits[to] == c {
		m.waits[to] = none
		if to != r {
			m.ready = append(m.ready, to)
		}
	}
}

// send puts a message on the link over boundary i and says when it arrives.
func (m *Simulator) send(a Action, i int, at float64) float64 {
	id := m.back[i]
	if a.Kind == Forward || a.Kind == SendForward {
		id = m.forward[i]
	}
	l := &m.links[id]
	start := max(at, l.free)
	l.free = start + m.table.transfer[i]
	if arrival := l.free + m.table.latency[i]; arrival > start {
		m.line.Messages = append(m.line.Messages, Message{From: l.from, To: l.to, Action: a, Start: start, End: arrival})
		return arrival
	}
	return start
}
