package comm

import "fmt"

// Meeting is one collective as far as its members have come to it: what every implementation of a world
// brings together.
type Meeting struct {
	// Ranks is the members by slot: the group in its order, or the sender and the receiver of a message.
	Ranks []int
	// Calls is their calls by slot; nil until a member comes.
	Calls []*Call
	// Seq is the meeting's number among those of its members.
	Seq int
	// Here says by slot which members live in this process; nil means all. A plan makes the results of these.
	Here []bool
	// Shared says that every process has all operands, so that nothing is to be sent.
	Shared bool
}

// NewMeeting returns a meeting to which nobody has come.
func NewMeeting(ranks []int, seq int) Meeting {
	return Meeting{Ranks: ranks, Calls: make([]*Call, len(ranks)), Seq: seq}
}

// here reports whether the member of a slot lives in this process.
func (m *Meeting) here(slot int) bool { return m.Here == nil || m.Here[slot] }

// Lacks reports whether the meeting waits for the rank.
func (m *Meeting) Lacks(rank int) bool {
	for slot, r := range m.Ranks {
		if r == rank && m.Calls[slot] == nil {
			return true
		}
	}
	return false
}

// FirstBut returns the first slot that has come, other than the given one; -1 if there is none.
func (m *Meeting) FirstBut(slot int) int {
	for i, c := range m.Calls {
		if c != nil && i != slot {
			return i
		}
	}
	return -1
}

// Absent returns the ranks that have not come.
func (m *Meeting) Absent() []int {
	var ranks []int
	for slot, r := range m.Ranks {
		if m.Calls[slot] == nil {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// Side returns what errors say of the member of a slot.
func (m *Meeting) Side(slot int) Side {
	return Side{Rank: m.Ranks[slot], Call: m.Calls[slot].text(fmt.Sprintf(" #%d", m.Seq)), Waits: m.Absent()}
}

// Agree returns an error where the member of a slot does something else than one that came before it.
func (m *Meeting) Agree(slot int) error {
	first := m.FirstBut(slot)
	if first < 0 {
		return nil
	}
	if what := disagreement(m.Calls[first], m.Calls[slot]); what != "" {
		return m.mismatch(what+" differ", slot, first)
	}
	return nil
}

func (m *Meeting) mismatch(what string, later, earlier int) error {
	e := &MismatchError{What: what, Sides: [2]Side{m.Side(later), m.Side(earlier)}}
	e.Sides[0].Waits, e.Sides[1].Waits = nil, nil
	return e
}
