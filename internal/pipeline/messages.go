package pipeline

import "fmt"

// carriedAll checks that a lowered schedule sends and receives exactly what crosses ranks, each after it is
// computed and before it is needed.
func (c *checker) carriedAll() error {
	if !c.flow.lowered {
		return nil
	}
	s := c.flow.s
	for i := range s.Stages {
		for micro := range s.Micros {
			back := c.backward(i, micro)
			var err error
			if i+1 < s.Stages && c.flow.crosses(i) {
				err = c.each(micro, []rule{{i, Forward, SendForward}, {i, RecvBackward, back}})
			} else {
				err = c.nothing(i, micro, SendForward, RecvBackward)
			}
			if err != nil {
				return err
			}
			if i > 0 && c.flow.crosses(i-1) {
				err = c.each(micro, []rule{{i, RecvForward, Forward}, {i, back, SendBackward}})
			} else {
				err = c.nothing(i, micro, RecvForward, SendBackward)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// rule requires that a stage has one kind before another.
type rule struct {
	stage         int
	first, second Kind
}

func (c *checker) each(micro int, rules []rule) error {
	for _, r := range rules {
		for _, k := range []Kind{r.first, r.second} {
			if c.pos(k, r.stage, micro) < 0 {
				return fmt.Errorf("schedule: missing %s: stages %d and %d are on different ranks", act(r.stage, k, micro),
					r.stage, act(r.stage, k, micro).Peer())
			}
		}
		if err := c.before(r.stage, micro, r.first, r.second); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) nothing(stage, micro int, ks ...Kind) error {
	for _, k := range ks {
		if c.pos(k, stage, micro) >= 0 {
			return fmt.Errorf("schedule: rank %d has %s: no other rank is at the other end", c.flow.s.Place[stage],
				act(stage, k, micro))
		}
	}
	return nil
}

// links returns the ordered pairs of ranks with messages between them, each once, with the sends and receives
// in order.
func (c *checker) links() []channel {
	s := c.flow.s
	var out []channel
	ids := make([][]int, len(s.Ranks)) // of each rank, the channels that leave it
	find := func(from, to int) *channel {
		for _, id := range ids[from] {
			if out[id].to == to {
				return &out[id]
			}
		}
		ids[from] = append(ids[from], len(out))
		out = append(out, channel{from: from, to: to})
		return &out[len(out)-1]
	}
	for r, actions := range s.Ranks {
		for _, a := range actions {
			switch {
			case a.Kind.Sends():
				ch := find(r, s.Place[a.Peer()])
				ch.sends = append(ch.sends, a)
			case a.Kind.Receives():
				ch := find(s.Place[a.Peer()], r)
				ch.receives = append(ch.receives, a)
			}
		}
	}
	return out
}

// channel holds the messages from one rank to another.
type channel struct {
	from, to        int
	sends, receives []Action
}

// matches reports whether the receive takes what the send sends.
func matches(send, recv Action) bool {
	return send.Peer() == recv.Stage && recv.Peer() == send.Stage && send.Micro == recv.Micro &&
		(send.Kind == SendForward) == (recv.Kind == RecvForward)
}

// fifo checks that messages between two ranks are received in the order in which they are sent.
func (c *checker) fifo() error {
	if !c.flow.lowered {
		return nil
	}
	for _, ch := range c.links() {
		for i := range ch.sends {
			if !matches(ch.sends[i], ch.receives[i]) {
				return fmt.Errorf("schedule: message %d from rank %d to rank %d is sent by %s but received by %s: "+
					"want the order of the sends",
					i, ch.from, ch.to, ch.sends[i], ch.receives[i])
			}
		}
	}
	return nil
}
