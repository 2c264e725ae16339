package process

import (
	"bytes"
	"hash/fnv"

	"github.com/galley-ml/galley/internal/comm"
)

// laneKey identifies a sequence of rendezvous: those of a group, or the messages from one member to another
// with one tag.
type laneKey struct {
	group         string
	from, to, tag int // from is -1 for collectives of the whole group
}

// lane is a sequence of rendezvous of the same ranks. Each member goes through them in order, so they become
// complete in order, in every process.
type lane struct {
	ranks  []int // by slot: the group, or sender and receiver
	owner  []int // by slot
	local  []bool
	groups []*comm.Group // by slot: the group as the member sees it
	others []int         // the other processes with members in the lane
	wire   []byte        // the lane's name in notes
	hash   uint64        // of wire
	came   []int         // by slot of this process: the number of rendezvous that it has arrived at
	base   int           // sequence number of open[0]
	open   []*rendezvous
}

// lane finds the lane of a call and the caller's slot in it.
func (s *run) lane(c *comm.Call) (*lane, int) {
	g := c.Group
	slot := g.Pos()
	key := laneKey{group: g.String(), from: -1}
	switch c.Kind {
	case comm.Send:
		key.from, key.to, key.tag = slot, c.Root, c.Tag
		slot = 0
	case comm.Recv:
		key.from, key.to, key.tag = c.Root, slot, c.Tag
		slot = 1
	}
	l, ok := s.lanes[key]
	if !ok {
		l = s.newLane(key, g.Ranks())
	}
	return l, slot
}

// newLane makes a lane of a group.
func (s *run) newLane(key laneKey, ranks []int) *lane {
	l := &lane{}
	members := make([]int, len(ranks))
	for i := range members {
		members[i] = i
	}
	if key.from >= 0 {
		members = []int{key.from, key.to}
	}
	seen := map[int]bool{s.world.p.rank: true}
	for _, pos := range members {
		owner := s.world.owner[ranks[pos]]
		l.ranks, l.owner = append(l.ranks, ranks[pos]), append(l.owner, owner)
		l.local = append(l.local, owner == s.world.p.rank)
		l.groups = append(l.groups, comm.RemoteGroup(ranks, pos))
		if !seen[owner] {
			seen[owner] = true
			l.others = append(l.others, owner)
		}
	}
	l.came = make([]int, len(l.ranks))
	l.wire = appendLane(nil, key, ranks)
	h := fnv.New64a()
	h.Write(l.wire)
	l.hash = h.Sum64()
	s.lanes[key], s.wires[string(l.wire)] = l, l
	return l
}

// appendLane writes the name of a lane.
func appendLane(b []byte, key laneKey, ranks []int) []byte {
	b = appendRanks(b, ranks)
	if key.from < 0 {
		return append(b, 0)
	}
	b = appendCount(appendCount(append(b, 1), key.from), key.to)
	return appendCount(b, key.tag<<1^key.tag>>63)
}

// laneOf returns the lane that a note names, and makes it if it is new; nil if the name is invalid.
func (s *run) laneOf(wire []byte) *lane {
	if l, ok := s.wires[string(wire)]; ok {
		return l
	}
	r := &reader{rest: wire}
	ranks := r.ranks(s.world.Size())
	key := laneKey{from: -1}
	seen := map[int]bool{}
	for _, rank := range ranks {
		r.bad = r.bad || seen[rank]
		seen[rank] = true
	}
	if r.byte() == 1 && len(ranks) > 0 {
		key.from, key.to = r.count(len(ranks)-1), r.count(len(ranks)-1)
		tag := r.count(1<<63 - 1)
		key.tag = tag>>1 ^ -(tag & 1)
	}
	if r.bad || len(ranks) == 0 || !bytes.Equal(appendLane(nil, key, ranks), wire) {
		return nil
	}
	key.group = comm.RemoteGroup(ranks, 0).String()
	return s.newLane(key, ranks)
}

// at returns the rendezvous with a sequence number; it must not be closed yet.
func (l *lane) at(seq int) *rendezvous {
	for seq >= l.base+len(l.open) {
		l.open = append(l.open, newRendezvous(l, l.base+len(l.open)))
	}
	return l.open[seq-l.base]
}

// next returns the rendezvous that the member of a slot arrives at now.
func (l *lane) next(slot int) *rendezvous {
	l.came[slot]++
	return l.at(l.came[slot] - 1)
}

// close removes the first rendezvous, now complete, from the open ones.
func (l *lane) close(m *rendezvous) {
	if l.open[0] != m {
		panic("process: rendezvous became complete out of order")
	}
	l.open[0] = nil
	if l.open = l.open[1:]; len(l.open) == 0 {
		l.open = nil
	}
	l.base++
}
