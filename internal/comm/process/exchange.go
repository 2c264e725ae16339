package process

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
)

var none array.Array

// carry does a rendezvous's work in this process: the exchange with others, if no other goroutine does it
// already, and pieces. A member that waits drives the transport too.
func (s *run) carry(m *rendezvous, drives bool) {
	if !m.exchange || !m.carried.CompareAndSwap(false, true) {
		s.work(m)
		return
	}
	defer m.over()
	defer s.bug(m)
	x := &exchange{s: s, m: m, drives: drives, out: slices.Clone(m.mine), in: slices.Clone(m.theirs)}
	defer x.release()
	err := x.reduce()
	if err == nil {
		err = x.move()
	}
	if err == nil {
		err = x.await(m.sent)
	}
	if err != nil {
		s.failRendezvous(m, err)
	}
}

// exchange is what this process sends and receives for a rendezvous.
type exchange struct {
	s       *run
	m       *rendezvous
	drives  bool
	out, in []uint32 // by index in lane.others: the numbers of the next messages
	buffers [][]byte
	broken  bool // peers may still use the buffers
}

// peer returns the index of a member's process in lane.others.
func (x *exchange) peer(slot int) int { return slices.Index(x.m.lane.others, x.m.lane.owner[slot]) }

// send adds the next message to a process, unless all were sent before the rendezvous was complete.
func (x *exchange) send(messages []comm.Message, peer int, data []byte) []comm.Message {
	x.out[peer]++
	if x.m.sent != nil {
		return messages
	}
	return append(messages,
		comm.Message{Peer: x.m.lane.others[peer], Number: x.out[peer] - 1, Send: true, Data: data})
}

// receive returns the receiving end of the next message from a process.
func (x *exchange) receive(peer int, data []byte) comm.Message {
	x.in[peer]++
	return comm.Message{Peer: x.m.lane.others[peer], Number: x.in[peer] - 1, Data: data}
}

// buffer returns memory that is released when the exchange ends.
func (x *exchange) buffer(n int) []byte {
	b := x.s.world.p.buffer(n)
	x.buffers = append(x.buffers, b)
	return b
}

func (x *exchange) release() {
	for _, b := range x.buffers {
		if !x.broken {
			x.s.world.p.release(b)
		}
	}
	x.buffers = nil
}

// await waits until the messages are done, or the run has failed, when they may still be in flight.
func (x *exchange) await(t comm.Transfer) error {
	if t == nil {
		return nil
	}
	select {
	case <-t.Done():
	default:
		x.block(t)
	}
	select {
	case <-t.Done():
		if err := t.Err(); err != nil {
			x.broken = true
			x.s.breakOff(err)
			return err
		}
		return nil
	default:
		x.broken = true
		x.s.world.p.mu.Lock()
		defer x.s.world.p.mu.Unlock()
		return x.s.err
	}
}

// block waits for messages or the run's failure.
func (x *exchange) block(t comm.Transfer) {
	if !x.drives {
		select {
		case <-t.Done():
		case <-x.s.stop:
		}
		return
	}
	x.s.world.p.transport.Drive(t.Done(), x.s.stop)
}

// start starts messages; it returns nil if there are none.
func (x *exchange) start(messages []comm.Message) comm.Transfer {
	if len(messages) == 0 {
		return nil
	}
	return x.s.world.p.transport.Start(messages)
}

// contents identifies the data of one message to one process.
type contents struct {
	peer int
	what comm.Contents
}

// landing is a parcel that is copied to its place from a buffer or from another result.
type landing struct {
	parcel *comm.Parcel
	from   []byte
}

// move sends and receives boxes, and does the rendezvous's own pieces in the meantime.
func (x *exchange) move() error {
	plan := x.m.plan
	var messages []comm.Message
	sent := map[contents]bool{}
	for i := range plan.Outgoing {
		p := &plan.Outgoing[i]
		k := contents{x.peer(p.Target), p.Contents()}
		if sent[k] {
			continue
		}
		sent[k] = true
		data, ok := p.Direct()
		if !ok {
			data = x.buffer(p.Bytes())
			p.Pack(data)
		}
		messages = x.send(messages, k.peer, data)
	}
	incoming, landings := x.incoming()
	t := x.start(append(incoming, messages...))
	x.s.work(x.m)
	if err := x.await(t); err != nil {
		return err
	}
	for _, l := range landings {
		l.parcel.Unpack(l.from)
	}
	return nil
}

// incoming returns the messages that receive boxes, and the boxes that are copied after they have arrived:
// those not contiguous, and those that several members receive.
func (x *exchange) incoming() ([]comm.Message, []landing) {
	var messages []comm.Message
	var landings []landing
	got := map[contents][]byte{}
	for i := range x.m.plan.Incoming {
		p := &x.m.plan.Incoming[i]
		k := contents{x.peer(p.Source), p.Contents()}
		if data, ok := got[k]; ok {
			landings = append(landings, landing{p, data})
			continue
		}
		data, ok := p.Direct()
		if !ok {
			data = x.buffer(p.Bytes())
			landings = append(landings, landing{p, data})
		}
		got[k] = data
		messages = append(messages, x.receive(k.peer, data))
	}
	return messages, landings
}
