package step

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// event is something that a device may have to wait for.
type event struct {
	kind eventKind
	// group identifies the members of a collective, what its signature, which must be the same for all members.
	group, what string
	size        int
	// key identifies a message, the same at both ends.
	key message
	at  where
	// work is the seconds that the device computes before it, load those of its own part in it; both are 0
	// unless they are requested.
	work, load float64
	// span is what a device does from here on, where an instruction begins.
	span Span
}

type eventKind uint8

const (
	collective eventKind = iota
	sent
	received
	delivered // a message that was sent has been received
	ended     // the tape is over
	started   // an instruction; only a clock that is watched has these
)

// message is one message: its ends, and its number between them.
type message struct{ from, to, tag int }

// where locates an event, for messages.
type where struct {
	instruction string
	pos         ir.Pos
	text        string
}

func (w where) String() string {
	if w.pos != "" {
		return fmt.Sprintf("%s: %s: %s", w.instruction, w.pos, w.text)
	}
	return w.instruction + ": " + w.text
}

// events returns what a device may wait for, in order.
func (t *tape) events() ([]event, error) {
	var list []event
	counts := map[message]int{}
	for i := range t.code {
		for _, in := range t.code {
			if in.kind == send && in.until == i && i > 0 {
				list = append(list, event{kind: delivered, key: message{t.device, in.peer, in.tag},
					at: where{in.name(), "",
						"send"}})
			}
		}
		in := t.code[i]
		switch in.kind {
		case send:
			list = append(list, event{kind: sent, key: message{t.device, in.peer, in.tag}, at: where{in.name(), "",
				"send"}})
		case receive:
			list = append(list, event{kind: received, key: message{in.peer, t.device, in.tag}, at: where{in.name(), "",
				"receive"}})
		case call:
			more, err := t.collectives(in, counts)
			if err != nil {
				return nil, err
			}
			list = append(list, more...)
		}
	}
	return list, nil
}

// collectives returns those of a program.
func (t *tape) collectives(in instruction, counts map[message]int) ([]event, error) {
	var list []event
	for _, n := range in.exe.Func().Nodes() {
		c, ok := n.Op().(op.Collective)
		if _, waits := n.Op().(op.Waiter); !ok || waits {
			continue
		}
		at := where{in.name(), n.Pos(), n.Op().Name()}
		if m, ok := n.Op().(op.Messenger); ok {
			more, err := t.messages(m, at, counts)
			if err != nil {
				return nil, err
			}
			list = append(list, more...)
			continue
		}
		members, err := op.Members(c, t.device)
		if err != nil {
			return nil, err
		}
		if len(members) > 1 {
			meshText, axes := c.Over()
			what := fmt.Sprintf("%s over %s of mesh %s, %v", c.Name(), axes, meshText, n.Out()[0].DType())
			list = append(list, event{kind: collective, group: fmt.Sprint(members), size: len(members), what: what,
				at: at})
		}
	}
	return list, nil
}

// messages returns those of a move between meshes: sends first, then receives.
func (t *tape) messages(m op.Messenger, at where, counts map[message]int) ([]event, error) {
	to, from, err := m.Messages(t.device)
	if err != nil {
		return nil, err
	}
	var list []event
	next := func(kind eventKind, k message) {
		counts[k]++
		k.tag = -counts[k] // those of stages are not negative
		list = append(list, event{kind: kind, key: k, at: at})
	}
	for _, peer := range to {
		next(sent, message{from: t.device, to: peer})
	}
	for _, peer := range from {
		next(received, message{from: peer, to: t.device})
	}
	return list, nil
}

func (in instruction) name() string {
	if in.action.Stage < 0 {
		return whenWords[in.action.Stage]
	}
	return in.action.String()
}

// match runs the tapes of all devices against each other without computing: every collective must match those
// of its group, every message must have its other end, and no device may wait forever.
func (p *Plan) match() error {
	m := &matcher{meetings: map[string]*gathering{}, posted: map[message]int{}, taken: map[message]int{},
		waiting: map[waiting]int{}}
	for _, t := range p.tapes {
		var list []event
		if t != nil {
			var err error
			if list, err = t.events(); err != nil {
				return err
			}
		}
		m.events = append(m.events, list)
	}
	m.at = make([]int, len(m.events))
	for d := range m.events {
		m.ready = append(m.ready, d)
	}
	for len(m.ready) > 0 {
		d := m.ready[0]
		m.ready = m.ready[1:]
		if err := m.run(d); err != nil {
			return err
		}
	}
	return m.stuck()
}

type matcher struct {
	events   [][]event
	at       []int
	ready    []int
	meetings map[string]*gathering
	// posted and taken count messages; waiting holds the devices that wait for one to be posted or taken.
	posted, taken map[message]int
	waiting       map[waiting]int
}

type waiting struct {
	kind eventKind
	key  message
}

// gathering holds the members that have reached a collective.
type gathering struct {
	devices []int
	first   event
}

// run lets a device continue until it has to wait.
func (m *matcher) run(d int) error {
	for m.at[d] < len(m.events[d]) {
		e := m.events[d][m.at[d]]
		switch e.kind {
		case collective:
			return m.meet(d, e)
		case sent:
			m.posted[e.key]++
			m.wake(received, e.key)
		case received:
			if m.posted[e.key] == 0 {
				m.waiting[waiting{received, e.key}] = d
				return nil
			}
			m.posted[e.key]--
			m.taken[e.key]++
			m.wake(delivered, e.key)
		case delivered:
			if m.taken[e.key] == 0 {
				m.waiting[waiting{delivered, e.key}] = d
				return nil
			}
		}
		m.at[d]++
	}
	return nil
}

func (m *matcher) wake(kind eventKind, key message) {
	k := waiting{kind, key}
	if d, ok := m.waiting[k]; ok {
		delete(m.waiting, k)
		m.ready = append(m.ready, d)
	}
}

// meet brings a device to its group's next collective.
func (m *matcher) meet(d int, e event) error {
	g := m.meetings[e.group]
	if g == nil {
		g = &gathering{first: e}
		m.meetings[e.group] = g
	}
	if e.what != g.first.what {
		return fmt.Errorf("step: devices %d and %d do not meet: %s (%s) against %s (%s)", g.devices[0], d,
			g.first.what, g.first.at, e.what, e.at)
	}
	g.devices = append(g.devices, d)
	if len(g.devices) < e.size {
		return nil
	}
	delete(m.meetings, e.group)
	for _, member := range g.devices {
		m.at[member]++
		m.ready = append(m.ready, member)
	}
	return nil
}

// stuck returns an error if a device waits forever.
func (m *matcher) stuck() error {
	var left []string
	for d, list := range m.events {
		if m.at[d] < len(list) {
			left = append(left, fmt.Sprintf("device %d at %s", d, list[m.at[d]].at))
		}
	}
	if left == nil {
		return nil
	}
	if len(left) > 4 {
		left = append(left[:4], "…")
	}
	return fmt.Errorf("step: deadlock: nobody can go on: %s", strings.Join(left, "; "))
}
