package pipeline

import (
	"fmt"
	"strings"
)

// Report is the result of checking a valid schedule.
type Report struct {
	// Live is the largest number of micro-batches, counted per stage, that each rank holds at a time: those
	// whose forward has begun and whose backward, both halves of it, has not ended. Stage is the same for each
	// stage.
	Live, Stage []int
}

// Check reports whether a schedule is complete, in order and free of deadlocks: every stage has for every
// micro-batch one forward and one backward, or both halves of one; each rank computes what it needs itself
// before it needs it; and no two ranks wait for each other. For a schedule without sends and receives it
// assumes that messages are sent as early as possible, buffered without limit, and received in any order. For
// a lowered schedule it also checks that every receive has its send and that messages between two ranks are
// received in the order in which they are sent.
func Check(s *Schedule) (*Report, error) {
	if err := shape(s); err != nil {
		return nil, err
	}
	c := checker{flow: flow{s, s.Lowered()}}
	for _, step := range []func() error{c.index, c.complete, c.ordered, c.carriedAll, c.fifo, c.deadlock} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return c.report(), nil
}

// shape checks what all other checks rely on.
func shape(s *Schedule) error {
	switch {
	case s.Stages < 1 || s.Micros < 1 || len(s.Ranks) < 1:
		return fmt.Errorf("schedule: %d stages, %d micro-batches, %d ranks: want one or more of each", s.Stages,
			s.Micros, len(s.Ranks))
	case len(s.Place) != s.Stages:
		return fmt.Errorf("schedule: place has %d ranks: want one for each of %d stages", len(s.Place), s.Stages)
	case s.Stages > mostStages || s.Micros > mostMicros || s.Stages*s.Micros > mostCells:
		return fmt.Errorf("schedule: %d stages of %d micro-batches: want at most %d stages and a product of at "+
			"most %d",
			s.Stages, s.Micros, mostStages, mostCells)
	}
	for stage, r := range s.Place {
		if r < 0 || r >= len(s.Ranks) {
			return fmt.Errorf("schedule: stage %d is placed on rank %d: want 0 to %d", stage, r, len(s.Ranks)-1)
		}
	}
	if n := s.Len(); n < 2*s.Stages*s.Micros {
		// Missing actions are reported below; but a table of everything is not worth allocating for a nearly empty
		// schedule.
		if s.Stages*s.Micros > 1<<12+4*n {
			return fmt.Errorf("schedule: %d actions: want at least two for each of %d stages and %d micro-batches", n,
				s.Stages, s.Micros)
		}
	}
	return nil
}

// checker holds the position of each action.
type checker struct {
	flow flow
	at   [kinds][]int // position in its rank, plus one, by stage and micro-batch
}

func (c *checker) pos(k Kind, stage, micro int) int { return c.at[k][stage*c.flow.s.Micros+micro] - 1 }

// index records the position of every action and refuses misplaced ones.
func (c *checker) index() error {
	s := c.flow.s
	for r, actions := range s.Ranks {
		for i, a := range actions {
			if a.Kind >= kinds || a.Stage < 0 || a.Stage >= s.Stages || a.Micro < 0 || a.Micro >= s.Micros {
				return fmt.Errorf("schedule: rank %d has %s: want stages 0 to %d and micro-batches 0 to %d", r, a,
					s.Stages-1, s.Micros-1)
			}
			if s.Place[a.Stage] != r {
				return fmt.Errorf("schedule: rank %d has %s: stage %d is placed on rank %d", r, a, a.Stage,
					s.Place[a.Stage])
			}
			if a.Joined && (a.Kind != Forward || i+1 == len(actions) || actions[i+1].Kind != Backward) {
				return fmt.Errorf("schedule: rank %d joins %s to something: want a forward joined to a backward right "+
					"after it", r, a)
			}
			if c.at[a.Kind] == nil {
				c.at[a.Kind] = make([]int, s.Stages*s.Micros)
			}
			if p := &c.at[a.Kind][a.Stage*s.Micros+a.Micro]; *p != 0 {
				return fmt.Errorf("schedule: rank %d has %s twice: at positions %d and %d", r, a, *p-1, i)
			} else {
				*p = i + 1
			}
		}
	}
	for k := range c.at {
		if c.at[k] == nil {
			c.at[k] = make([]int, s.Stages*s.Micros)
		}
	}
	return nil
}

// complete looks for missing actions and lists the first few.
func (c *checker) complete() error {
	var missing []string
	for i := range c.at[Forward] {
		stage, micro := i/c.flow.s.Micros, i%c.flow.s.Micros
		lacks := func(k Kind) { missing = append(missing, act(stage, k, micro).String()) }
		if c.at[Forward][i] == 0 {
			lacks(Forward)
		}
		whole, input, weight := c.at[Backward][i] != 0, c.at[Input][i] != 0, c.at[Weight][i] != 0
		switch {
		case whole && (input || weight):
			return fmt.Errorf("schedule: stage %d has for micro-batch %d both B and a half of it: want B, or I and W",
				stage, micro)
		case whole || input && weight:
		case input:
			lacks(Weight)
		case weight:
			lacks(Input)
		default:
			lacks(Backward)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	more := ""
	if n := len(missing); n > 8 {
		missing, more = missing[:8], fmt.Sprintf(" and %d more", n-8)
	}
	return fmt.Errorf("schedule: missing %s%s", strings.Join(missing, " "), more)
}

// backward returns the kind of action by which the stage computes the gradient of its input for the
// micro-batch.
func (c *checker) backward(stage, micro int) Kind {
	if c.pos(Backward, stage, micro) >= 0 {
		return Backward
	}
	return Input
}

// ordered checks that each stage's own actions are in order.
func (c *checker) ordered() error {
	s := c.flow.s
	for stage := range s.Stages {
		for micro := range s.Micros {
			back := c.backward(stage, micro)
			if err := c.before(stage, micro, Forward, back); err != nil {
				return err
			}
			if back == Input {
				if err := c.before(stage, micro, Input, Weight); err != nil {
					return err
				}
			}
			if at := c.pos(Forward, stage, micro); s.Ranks[s.Place[stage]][at].Joined &&
				c.pos(Backward, stage, micro) == at+1 {
				return fmt.Errorf("schedule: rank %d joins %s to its own backward, which needs it", s.Place[stage],
					act(stage, Forward, micro))
			}
		}
	}
	return nil
}

// before checks that a stage has one kind before the other.
func (c *checker) before(stage, micro int, first, second Kind) error {
	i, j := c.pos(first, stage, micro), c.pos(second, stage, micro)
	if i < j {
		return nil
	}
	return fmt.Errorf("schedule: rank %d has %s at position %d, before %s at position %d: want it after",
		c.flow.s.Place[stage], act(stage, second, micro), j, act(stage, first, micro), i)
}

// report counts live micro-batches.
func (c *checker) report() *Report {
	s := c.flow.s
	rep := &Report{Live: make([]int, len(s.Ranks)), Stage: make([]int, s.Stages)}
	stage := make([]int, s.Stages)
	for r, actions := range s.Ranks {
		live := 0
		for _, a := range actions {
			switch a.Kind {
			case Forward:
				live++
				stage[a.Stage]++
			case Backward, Weight:
				live--
				stage[a.Stage]--
			}
			rep.Live[r] = max(rep.Live[r], live)
			rep.Stage[a.Stage] = max(rep.Stage[a.Stage], stage[a.Stage])
		}
	}
	return rep
}
