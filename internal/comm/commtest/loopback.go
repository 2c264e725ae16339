package commtest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/galley-ml/galley/internal/comm"
)

// Loopback connects simulated processes within one real process, for tests of multi-process worlds: one
// transport for each. Notes of different senders arrive in any order, delayed by up to delay.
type Loopback struct {
	delay time.Duration
	ends  []*end

	mu   sync.Mutex
	open map[wireKey]half
	lost []bool
}

// NewLoopback connects n processes.
func NewLoopback(n int, delay time.Duration) *Loopback {
	b := &Loopback{delay: delay, open: map[wireKey]half{}, lost: make([]bool, n)}
	for i := range n {
		e := &end{net: b, rank: i, ready: make(chan struct{})}
		for range n {
			e.from = append(e.from, &queue{})
		}
		b.ends = append(b.ends, e)
	}
	return b
}

// Transport returns the transport of one process.
func (b *Loopback) Transport(rank int) comm.Transport { return b.ends[rank] }

// Lose disconnects a process: what it posted and has not arrived is lost, and the others are notified.
func (b *Loopback) Lose(rank int) {
	b.mu.Lock()
	b.lost[rank] = true
	b.mu.Unlock()
	for _, e := range b.ends {
		if e.rank != rank {
			e.listen(rank, nil, fmt.Errorf("the connection is closed"))
		}
	}
}

// Mute disconnects a process without notifying the others.
func (b *Loopback) Mute(rank int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost[rank] = true
}

func (b *Loopback) isLost(ranks ...int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range ranks {
		if b.lost[r] {
			return true
		}
	}
	return false
}

// pause sleeps for a random time up to the delay.
func (b *Loopback) pause() {
	if b.delay > 0 && rand.IntN(4) == 0 {
		time.Sleep(rand.N(b.delay))
	}
}

// end is one process's transport.
type end struct {
	net    *Loopback
	rank   int
	listen func(from int, note []byte, err error)
	ready  chan struct{} // closed when a listener is registered
	from   []*queue      // by sender
}

// queue holds the notes from one sender to one receiver.
type queue struct {
	mu    sync.Mutex
	notes [][]byte
	busy  bool
}

func (e *end) Rank() int { return e.rank }
func (e *end) Size() int { return len(e.net.ends) }

func (e *end) Listen(f func(from int, note []byte, err error)) {
	e.listen = f
	close(e.ready)
}

func (e *end) Close() error { return nil }

// Drive only waits: a goroutine of its own delivers every note and message.
func (e *end) Drive(until, stop <-chan struct{}) {
	select {
	case <-until:
	case <-stop:
	}
}

// Post appends a note to the receiver's queue, which one goroutine delivers in order.
func (e *end) Post(to int, note []byte) {
	if len(note) > comm.NoteBytes {
		panic(fmt.Sprintf("loopback: a note of %d bytes: want at most %d", len(note), comm.NoteBytes))
	}
	q := e.net.ends[to].from[e.rank]
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notes = append(q.notes, append([]byte(nil), note...))
	if !q.busy {
		q.busy = true
		go e.deliver(to, q)
	}
}

func (e *end) deliver(to int, q *queue) {
	<-e.net.ends[to].ready
	for {
		q.mu.Lock()
		if len(q.notes) == 0 {
			q.busy = false
			q.mu.Unlock()
			return
		}
		note := q.notes[0]
		q.notes = q.notes[1:]
		q.mu.Unlock()
		e.net.pause()
		if !e.net.isLost(e.rank, to) {
			e.net.ends[to].listen(e.rank, note, nil)
		}
		for i := range note { // the listener may read the note only while it handles it, so overwrite it
			note[i] = 0xee
		}
	}
}

// wireKey identifies a message.
type wireKey struct {
	from, to int
	number   uint32
}

// half is the sender's or receiver's side of a message that waits for the other side.
type half struct {
	send bool
	data []byte
	over func(error)
}

// transfer is a set of messages in flight.
type transfer struct {
	mu   sync.Mutex
	left int
	err  error
	done chan struct{}
}

func (t *transfer) Done() <-chan struct{} { return t.done }
func (t *transfer) Err() error            { return t.err }

func (t *transfer) over(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.err = err
	}
	if t.left--; t.left == 0 {
		close(t.done)
	}
}

// Start matches the two sides of each message and copies its data.
func (e *end) Start(messages []comm.Message) comm.Transfer {
	t := &transfer{left: len(messages), done: make(chan struct{})}
	for _, m := range messages {
		k := wireKey{m.Peer, e.rank, m.Number}
		if m.Send {
			k.from, k.to = e.rank, m.Peer
		}
		e.net.meet(k, half{m.Send, m.Data, t.over})
	}
	return t
}

func (b *Loopback) meet(k wireKey, h half) {
	b.mu.Lock()
	defer b.mu.Unlock()
	other, ok := b.open[k]
	if !ok {
		b.open[k] = h
		return
	}
	if other.send == h.send {
		panic(fmt.Sprintf("loopback: message %v: both ends send, or receive", k))
	}
	delete(b.open, k)
	go b.copy(k, h, other)
}

func (b *Loopback) copy(k wireKey, to, from half) {
	if to.send {
		to, from = from, to
	}
	b.pause()
	if b.isLost(k.from, k.to) {
		return
	}
	var err error
	if len(to.data) != len(from.data) {
		err = fmt.Errorf("message %v: got %d bytes, want %d", k, len(from.data), len(to.data))
	}
	copy(to.data, from.data)
	from.over(err)
	to.over(err)
}

// Left returns the number of messages of which only one side was started.
func (b *Loopback) Left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open)
}
