package process

import "github.com/galley-ml/galley/internal/comm"

// earlyBytes is the longest operand that is sent before the notes of the others have come: with longer ones
// the time that notes take does not count.
const earlyBytes = 1 << 20

// sendEarly begins to send the operands of a long meeting while notes are under way, where what the others
// want follows from the calls of this process alone. Operands are only read: if the calls turn out not to
// fit, the run fails, and nobody receives what was sent. p.mu is held.
func (s *run) sendEarly(m *meeting) {
	var messages []comm.Message
	for i, other := range m.lane.others {
		parts, ok := s.parts(m, other)
		if !ok {
			return
		}
		for k, data := range parts {
			number := m.mine[i] + uint32(k)
			messages = append(messages, comm.Message{Peer: other, Number: number, Send: true, Data: data})
		}
	}
	if len(messages) > 0 {
		m.sent = s.world.p.transport.Start(messages)
	}
}

// parts returns what this process sends to another one in a meeting, by message, if these are operands or
// parts of them as they are in memory.
func (s *run) parts(m *meeting, other int) ([][]byte, bool) {
	var list [][]byte
	for _, slot := range targets(m, other) {
		for from, here := range m.lane.here {
			if !here {
				continue
			}
			data, ok := s.part(m, m.Calls[from], slot)
			if !ok {
				return nil, false
			}
			if len(data) > 0 {
				list = append(list, data)
			}
		}
	}
	return list, true
}

// targets returns the members of a process that get something of their own in a meeting, or one that stands
// for all of them.
func targets(m *meeting, other int) []int {
	var list []int
	for slot, owner := range m.lane.owner {
		if owner == other {
			list = append(list, slot)
		}
	}
	if m.Calls[m.firstHere()].Kind != comm.ReduceScatter {
		list = list[:1]
	}
	return list
}

// part returns what a member of this process sends for the member of a slot, if that is known and in one run.
func (s *run) part(m *meeting, c *comm.Call, slot int) ([]byte, bool) {
	data := c.Operand()
	if len(data) > min(earlyBytes, s.world.p.segment) {
		return nil, false
	}
	switch c.Kind {
	case comm.AllGather, comm.Send:
		return data, true
	case comm.AllReduce:
		return data, s.world.p.whole(m.lane, len(data)) && m.lane.loose()
	case comm.ReduceScatter:
		data, ok := c.Part(slot)
		return data, ok && m.lane.loose()
	}
	return nil, false
}

// loose reports whether members of this process are terms of a reduction each by itself, so that operands
// travel as they are.
func (l *lane) loose() bool {
	for _, t := range comm.Terms(l.owner) {
		if l.here[t.From] && t.To-t.From > 1 {
			return false
		}
	}
	return true
}

// wholeBytes is how long operands of an all-reduce between two processes may be for each to send all of its
// own and to compute the whole result. That takes one exchange in place of two, moves as much between two
// processes, and more between several.
const wholeBytes = 1 << 20

// whole reports whether an all-reduce of n bytes goes so.
func (p *Process) whole(l *lane, n int) bool {
	others := len(l.others)
	return n*others*others <= wholeBytes && n <= p.segment
}
