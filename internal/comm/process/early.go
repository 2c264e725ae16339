package process

import "github.com/galley-ml/galley/internal/comm"

// earlyBytes is the longest operand that is sent before the notes of the others have arrived: for longer ones
// the time that notes take is negligible.
const earlyBytes = 1 << 20

// sendEarly starts sending the operands of a long rendezvous while notes are in flight, if what the others
// need follows from the calls of this process alone. Operands are only read: if the calls turn out not to
// match, the run fails, and what was sent is never received. p.mu is held.
func (s *run) sendEarly(m *rendezvous) {
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

// parts returns what this process sends to another one in a rendezvous, one slice a message, if all of it is
// operands or parts of them that are contiguous in memory.
func (s *run) parts(m *rendezvous, other int) ([][]byte, bool) {
	var list [][]byte
	for _, slot := range targets(m, other) {
		for from, here := range m.lane.local {
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

// targets returns the members of a process that each receive something different in a rendezvous, or one
// representative if all receive the same.
func targets(m *rendezvous, other int) []int {
	var list []int
	for slot, owner := range m.lane.owner {
		if owner == other {
			list = append(list, slot)
		}
	}
	if m.Calls[m.firstLocal()].Kind != comm.ReduceScatter {
		list = list[:1]
	}
	return list
}

// part returns what a member of this process sends to the member of a slot, if it is known and contiguous.
func (s *run) part(m *rendezvous, c *comm.Call, slot int) ([]byte, bool) {
	data := c.Operand()
	if len(data) > min(earlyBytes, s.world.p.segment) {
		return nil, false
	}
	switch c.Kind {
	case comm.AllGather, comm.Send:
		return data, true
	case comm.AllReduce:
		return data, s.world.p.exchangesWhole(m.lane, len(data)) && m.lane.sendsUncombined()
	case comm.ReduceScatter:
		data, ok := c.Part(slot)
		return data, ok && m.lane.sendsUncombined()
	}
	return nil, false
}

// sendsUncombined reports whether each member of this process is a term of the reduction by itself, so that
// operands are sent uncombined.
func (l *lane) sendsUncombined() bool {
	for _, t := range comm.Terms(l.owner) {
		if l.local[t.From] && t.To-t.From > 1 {
			return false
		}
	}
	return true
}

// wholeBytes is the longest operand of an all-reduce for which two processes send each other all of it and
// each computes the whole result. That takes one exchange instead of two and moves as many bytes; between
// more than two processes it would move more.
const wholeBytes = 1 << 20

// exchangesWhole reports whether an all-reduce of n bytes is done that way.
func (p *Process) exchangesWhole(l *lane, n int) bool {
	others := len(l.others)
	return n*others*others <= wholeBytes && n <= p.segment
}
