package comm

import "fmt"

// Rendezvous is one collective with the members' calls that have arrived so far. Every implementation of a
// world matches calls with it.
type Rendezvous struct {
	// Ranks is the members by slot: the group in its order, or the sender and the receiver of a message.
	Ranks []int
	// Calls is their calls by slot; nil until the member arrives.
	Calls []*Call
	// Seq is the rendezvous's number among those of its members.
	Seq int
	// Local reports by slot which members run in this process; nil means all. A plan makes the results of these.
	Local []bool
	// Shared means that every process has all operands, so that nothing has to be sent.
	Shared bool
}

// NewRendezvous returns a rendezvous at which no member has arrived.
func NewRendezvous(ranks []int, seq int) Rendezvous {
	return Rendezvous{Ranks: ranks, Calls: make([]*Call, len(ranks)), Seq: seq}
}

// isLocal reports whether the member of a slot runs in this process.
func (m *Rendezvous) isLocal(slot int) bool { return m.Local == nil || m.Local[slot] }

// WaitsFor reports whether the rendezvous waits for the rank.
func (m *Rendezvous) WaitsFor(rank int) bool {
	for slot, r := range m.Ranks {
		if r == rank && m.Calls[slot] == nil {
			return true
		}
	}
	return false
}

// FirstOther returns the first slot whose member has arrived, other than the given one; -1 if there is none.
func (m *Rendezvous) FirstOther(slot int) int {
	for i, c := range m.Calls {
		if c != nil && i != slot {
			return i
		}
	}
	return -1
}

// Missing returns the ranks that have not arrived.
func (m *Rendezvous) Missing() []int {
	var ranks []int
	for slot, r := range m.Ranks {
		if m.Calls[slot] == nil {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// Side returns the member of a slot and its call, for error messages.
func (m *Rendezvous) Side(slot int) Side {
	return Side{Rank: m.Ranks[slot], Call: m.Calls[slot].text(fmt.Sprintf(" #%d", m.Seq)), Waits: m.Missing()}
}

// Agree returns an error if the call of a slot does not match that of a member that arrived before it.
func (m *Rendezvous) Agree(slot int) error {
	first := m.FirstOther(slot)
	if first < 0 {
		return nil
	}
	if what := disagreement(m.Calls[first], m.Calls[slot]); what != "" {
		return m.mismatch(what+" differ", slot, first)
	}
	return nil
}

func (m *Rendezvous) mismatch(what string, later, earlier int) error {
	e := &MismatchError{What: what, Sides: [2]Side{m.Side(later), m.Side(earlier)}}
	e.Sides[0].Waits, e.Sides[1].Waits = nil, nil
	return e
}
