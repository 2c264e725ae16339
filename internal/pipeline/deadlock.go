package pipeline

import (
	"fmt"
	"strings"
)

// Wait is one edge of a deadlock: the rank cannot do At before another rank does For, which comes after that
// rank's own wait.
type Wait struct {
	Rank    int
	At, For Action
	Other   int
}

// DeadlockError reports ranks that wait for each other in a cycle.
type DeadlockError struct {
	Cycle []Wait
}

func (e *DeadlockError) Error() string {
	var b strings.Builder
	b.WriteString("schedule: deadlock: ")
	for i, w := range e.Cycle {
		if i > 0 {
			b.WriteString("; ")
		}
		next := e.Cycle[(i+1)%len(e.Cycle)]
		fmt.Fprintf(&b, "rank %d waits at %s for %s", w.Rank, w.At, w.For)
		if next.At != w.For {
			fmt.Fprintf(&b, ", which rank %d does after %s", w.Other, next.At)
		}
	}
	return b.String()
}

// deadlock runs the schedule without regard to time and reports who waits for whom if it stalls.
func (c *checker) deadlock() error {
	var m Simulator
	if err := m.table.load(&Costs{Forward: []float64{1}, Input: []float64{1}, Weight: []float64{1}},
		c.flow.s.Stages); err != nil {
		return err
	}
	if err := m.own.load(c.flow.s); err != nil {
		return err
	}
	if m.start(&m.own); m.drain() {
		return nil
	}
	return &DeadlockError{c.cycle(&m)}
}

// cycle follows waiting ranks from the first one until a rank repeats.
func (c *checker) cycle(m *Simulator) []Wait {
	s := c.flow.s
	r := 0
	for m.waits[r] == none {
		r++
	}
	seen := reset([]int(nil), len(s.Ranks), none)
	var path []Wait
	for seen[r] == none {
		seen[r] = len(path)
		i := m.cursor[r]
		if m.own.steps[i].Joined && int(m.own.steps[i].need) != m.waits[r] {
			i++
		}
		at := m.own.steps[i].Action
		at.Joined = false
		need := c.maker(m.waits[r])
		other := s.Place[need.Stage]
		path = append(path, Wait{Rank: r, At: at, For: need, Other: other})
		r = other
	}
	return path[seen[r]:]
}

// maker returns the action that produces a cell.
func (c *checker) maker(cell int) Action {
	s := c.flow.s
	group, stage, micro := cell/s.Micros/s.Stages, c.flow.stageOf(cell), cell%s.Micros
	switch {
	case group == 2:
		return act(stage-1, SendForward, micro)
	case group == 3:
		return act(stage+1, SendBackward, micro)
	case group == 0 && c.flow.lowered && c.flow.crosses(stage-1):
		return act(stage, RecvForward, micro)
	case group == 0:
		return act(stage-1, Forward, micro)
	case stage == s.Stages-1:
		return act(stage, Forward, micro)
	case c.flow.lowered && c.flow.crosses(stage):
		return act(stage, RecvBackward, micro)
	}
	return act(stage+1, c.backward(stage+1, micro), micro)
}
