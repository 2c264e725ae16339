package inproc

import "github.com/galley-ml/galley/internal/comm"

// laneKey identifies a sequence of rendezvous: those of a group, or the messages from one member to another
// with one tag.
type laneKey struct {
	group         string
	from, to, tag int // from is -1 for collectives of the whole group
}

// lane is a sequence of rendezvous of the same ranks. Each member goes through them in order, so they become
// complete in order.
type lane struct {
	key   laneKey
	ranks []int // by slot: the group, or sender and receiver
	came  []int // by slot: the number of rendezvous that it has arrived at
	base  int   // sequence number of open[0]
	open  []*rendezvous
}

// lane finds the lane of a call and the caller's slot in it.
func (s *run) lane(c *comm.Call) (*lane, int) {
	g := c.Group
	name, slot, ranks := g.String(), g.Pos(), g.Ranks()
	key := laneKey{group: name, from: -1}
	switch c.Kind {
	case comm.Send:
		key = laneKey{name, slot, c.Root, c.Tag}
		slot, ranks = 0, []int{ranks[slot], ranks[c.Root]}
	case comm.Recv:
		key = laneKey{name, c.Root, slot, c.Tag}
		slot, ranks = 1, []int{ranks[c.Root], ranks[slot]}
	}
	l, ok := s.lanes[key]
	if !ok {
		l = &lane{key: key, ranks: ranks, came: make([]int, len(ranks))}
		s.lanes[key] = l
	}
	return l, slot
}

// next returns the rendezvous that the member of a slot arrives at now.
func (l *lane) next(slot int) *rendezvous {
	i := l.came[slot] - l.base
	l.came[slot]++
	if i == len(l.open) {
		l.open = append(l.open, newRendezvous(l, l.base+i))
	}
	return l.open[i]
}

// close removes the first rendezvous, now complete, from the open ones. It deletes a message lane that is
// idle, since a program may use any number of tags.
func (s *run) close(l *lane, m *rendezvous) {
	if l.open[0] != m {
		panic("inproc: rendezvous became complete out of order")
	}
	l.open[0] = nil
	l.open = l.open[1:]
	l.base++
	if len(l.open) == 0 {
		if l.key.from >= 0 {
			delete(s.lanes, l.key)
		}
		l.open = nil
	}
}
