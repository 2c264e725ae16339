package pipeline

import "fmt"

// Lower adds the communication that a schedule implies: what a stage computes is sent right after it is
// computed, and received right before it is needed, unless both stages are on one rank. Messages between two
// ranks arrive in the order in which they are sent; if they are needed in another order, earlier ones are
// received early, which cannot make a rank wait longer, because the message that it needs was sent after
// them. The result passes Check.
func Lower(s *Schedule) (*Schedule, error) {
	if s.Lowered() {
		return nil, fmt.Errorf("schedule %s: has sends and receives: want one that is not lowered yet", s.Name)
	}
	if _, err := Check(s); err != nil {
		return nil, err
	}
	l := lowering{s: s, f: flow{s: s}}
	l.queues()
	out := *s
	out.Ranks = make([][]Action, len(s.Ranks))
	for r := range s.Ranks {
		out.Ranks[r] = l.rank(r)
	}
	if _, err := Check(&out); err != nil {
		return nil, fmt.Errorf("lowering: %w", err)
	}
	return &out, nil
}

type lowering struct {
	s *Schedule
	f flow
	// inbox holds for each rank, and each rank that sends to it, the receives in order of sending.
	inbox [][]queue
	// slot is the position of each cell in its queue.
	slot []int
}

// queue holds the messages from one rank, as the receives that take them.
type queue struct {
	from  int
	recvs []Action
	taken int
}

// send returns the messages of an action, or false if it has none.
func (l *lowering) send(a Action) (send, recv Action, ok bool) {
	if l.f.carried(a) == none {
		return Action{}, Action{}, false
	}
	if a.Kind == Forward {
		return act(a.Stage, SendForward, a.Micro), act(a.Stage+1, RecvForward, a.Micro), true
	}
	return act(a.Stage, SendBackward, a.Micro), act(a.Stage-1, RecvBackward, a.Micro), true
}

// queues lists the messages between each pair of ranks in the order in which they are sent.
func (l *lowering) queues() {
	l.inbox = make([][]queue, len(l.s.Ranks))
	l.slot = reset(l.slot, l.f.cells(), none)
	for r, actions := range l.s.Ranks {
		for _, a := range actions {
			if _, recv, ok := l.send(a); ok {
				q := l.queue(l.s.Place[recv.Stage], r)
				l.slot[l.f.makes(a)] = len(q.recvs)
				q.recvs = append(q.recvs, recv)
			}
		}
	}
}

// queue finds or makes the queue of messages to a rank from another.
func (l *lowering) queue(to, from int) *queue {
	for i := range l.inbox[to] {
		if l.inbox[to][i].from == from {
			return &l.inbox[to][i]
		}
	}
	l.inbox[to] = append(l.inbox[to], queue{from: from})
	return &l.inbox[to][len(l.inbox[to])-1]
}

// rank writes one rank's actions. A joined pair stays together: receives of both before it, sends after it.
func (l *lowering) rank(r int) []Action {
	var out []Action
	actions := l.s.Ranks[r]
	for i := 0; i < len(actions); i++ {
		unit := actions[i : i+1]
		if actions[i].Joined {
			unit = actions[i : i+2]
			i++
		}
		for _, a := range unit {
			out = l.receive(out, r, a)
		}
		out = append(out, unit...)
		for _, a := range unit {
			if send, _, ok := l.send(a); ok {
				out = append(out, send)
			}
		}
	}
	return out
}

// receive takes every message up to the one that the action needs, unless it was taken before.
func (l *lowering) receive(out []Action, r int, a Action) []Action {
	cell := l.f.needs(a)
	if cell == none || l.slot[cell] == none {
		return out
	}
	sender := a.Stage + 1
	if a.Kind == Forward {
		sender = a.Stage - 1
	}
	q := l.queue(r, l.s.Place[sender])
	for q.taken <= l.slot[cell] {
		out = append(out, q.recvs[q.taken])
		q.taken++
	}
	return out
}
