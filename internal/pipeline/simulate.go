package pipeline

import "fmt"

// Simulator runs schedules against costs. Its zero value is ready to use; reusing one reuses its memory. It
// is not safe for concurrent use.
type Simulator struct {
	own   Program // of Run
	prog  *Program
	table table
	line  Timeline

	cells  []float64 // when each was produced; below zero: not yet
	cursor []int     // the next step of each rank
	clock  []float64
	live   []float64 // bytes held by each rank
	count  []int     // micro-batches held by each rank, by stage
	waits  []int     // the cell that a rank waits for, or none
	ready  []int     // ranks that may continue
	free   []float64 // when each link is free
	spans  []Span
}

// Simulate runs a schedule once.
func Simulate(s *Schedule, c Costs) (*Timeline, error) { return new(Simulator).Run(s, &c) }

// Run computes when every action begins and ends if each rank executes its actions in order as early as
// possible and messages are sent in the background. The schedule should have passed Check; one that stalls is
// an error. The timeline is valid until the next run.
func (m *Simulator) Run(s *Schedule, c *Costs) (*Timeline, error) {
	if err := m.own.load(s); err != nil {
		return nil, err
	}
	return m.RunProgram(&m.own, c)
}

// RunProgram is like Run for a prepared schedule, which is faster if it is simulated under many costs.
func (m *Simulator) RunProgram(p *Program, c *Costs) (*Timeline, error) {
	s := p.flow.s
	if err := m.table.load(c, s.Stages); err != nil {
		return nil, err
	}
	if p.has[Input] && !m.table.split {
		return nil, fmt.Errorf("costs: schedule %s splits backward passes: want Input and Weight", s.Name)
	}
	m.start(p)
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

// start initializes the tables of a program.
func (m *Simulator) start(p *Program) {
	m.prog = p
	ranks := len(p.first) - 1
	m.cells = reset(m.cells, p.flow.cells(), -1)
	m.cursor = append(m.cursor[:0], p.first[:ranks]...)
	m.clock, m.live, m.count = reset(m.clock, ranks, 0), reset(m.live, ranks, 0), reset(m.count, ranks, 0)
	m.waits, m.free = reset(m.waits, ranks, none), reset(m.free, len(p.links), 0)
	m.ready = m.ready[:0]
	for r := ranks - 1; r >= 0; r-- {
		m.ready = append(m.ready, r)
	}
	m.line.begin(p.flow.s)
	if cap(m.spans) < len(p.steps) {
		m.spans = make([]Span, len(p.steps))
	}
	m.spans = m.spans[:len(p.steps)]
	for r := range ranks {
		m.line.Ranks[r] = m.spans[p.first[r]:p.first[r+1]]
	}
}

// drain lets ranks continue until none can, and reports whether all reached their end.
func (m *Simulator) drain() bool {
	for len(m.ready) > 0 {
		r := m.ready[len(m.ready)-1]
		m.ready = m.ready[:len(m.ready)-1]
		m.advance(r)
	}
	for r, next := range m.cursor {
		if next < m.prog.first[r+1] {
			return false
		}
	}
	return true
}

// advance runs a rank until it waits or ends.
func (m *Simulator) advance(r int) {
	steps, end := m.prog.steps, m.prog.first[r+1]
	clock := m.clock[r]
	i := m.cursor[r]
	for i < end {
		x := &steps[i]
		start, ok := m.available(r, x, clock)
		if !ok {
			break
		}
		if x.Joined {
			if start, ok = m.available(r, &steps[i+1], start); !ok {
				break
			}
			clock = start + m.table.both(x.Action, steps[i+1].Action)
			m.line.Work[r] += clock - start
			m.do(r, i, start, clock)
			m.do(r, i+1, start, clock)
			i += 2
			continue
		}
		clock = start
		if x.Kind.Computes() {
			clock += m.table.of(x.Action)
			m.line.Work[r] += clock - start
		}
		m.do(r, i, start, clock)
		i++
	}
	m.clock[r], m.cursor[r] = clock, i
}

// available returns when the step's operand is available, not before t; or the rank waits for it.
func (m *Simulator) available(r int, x *step, t float64) (float64, bool) {
	if x.need == none {
		return t, true
	}
	at := m.cells[x.need]
	if at < 0 {
		m.waits[r] = int(x.need)
		return 0, false
	}
	return max(t, at), true
}

// do records that a step ran and passes its result on.
func (m *Simulator) do(r, i int, start, end float64) {
	x := &m.prog.steps[i]
	m.spans[i] = Span{x.Action, start, end}
	m.account(r, x)
	if x.makes == none {
		return
	}
	if x.link != none {
		end = m.send(x, end)
	}
	m.cells[x.makes] = end
	if to := int(x.wakes); m.waits[to] == int(x.makes) {
		m.waits[to] = none
		if to != r {
			m.ready = append(m.ready, to)
		}
	}
}

// send puts a message on its link and returns when it arrives.
func (m *Simulator) send(x *step, at float64) float64 {
	start := max(at, m.free[x.link])
	free := start + m.table.transfer[x.boundary]
	m.free[x.link] = free
	arrival := free + m.table.latency[x.boundary]
	if arrival > start {
		l := &m.prog.links[x.link]
		m.line.Messages = append(m.line.Messages, Message{From: l.from, To: l.to, Action: x.Action, Start: start,
			End: arrival})
	}
	return arrival
}
