package sockets

import (
	"fmt"
	"net"
	"sync"

	"github.com/galley-ml/galley/job"
)

// transport is one process's end of all connections.
type transport struct {
	rank   int
	peers  []*peer // nil is this process
	listen func(from int, note []byte, err error)
}

func newTransport(rank int, conns []net.Conn) *transport {
	t := &transport{rank: rank, peers: make([]*peer, len(conns))}
	for i, c := range conns {
		if c != nil {
			t.peers[i] = newPeer(c)
		}
	}
	return t
}

func (t *transport) Rank() int { return t.rank }
func (t *transport) Size() int { return len(t.peers) }

// Listen starts to read.
func (t *transport) Listen(f func(from int, note []byte, err error)) {
	t.listen = f
	for i, p := range t.peers {
		if p != nil {
			go func() {
				if err := p.read(func(note []byte) { f(i, note, nil) }); err != nil {
					f(i, nil, err)
				}
			}()
		}
	}
}

func (t *transport) Post(to int, note []byte) {
	if len(note) > job.NoteBytes {
		panic(fmt.Sprintf("sockets: a note of %d bytes: want at most %d", len(note), job.NoteBytes))
	}
	t.peers[to].put(frame{kind: noteFrame, data: append([]byte(nil), note...)})
}

func (t *transport) Start(messages []job.Message) job.Transfer {
	x := &transfer{left: len(messages), done: make(chan struct{})}
	if len(messages) == 0 {
		close(x.done)
	}
	for _, m := range messages {
		if m.Send {
			t.peers[m.Peer].put(frame{kind: messageFrame, number: m.Number, data: m.Data, over: x.over})
		} else {
			t.peers[m.Peer].want(m.Number, m.Data, x.over)
		}
	}
	return x
}

// Drive has nothing to do: each connection has goroutines of its own.
func (t *transport) Drive(until, stop <-chan struct{}) {
	select {
	case <-until:
	case <-stop:
	}
}

// Close says farewell to all and waits for theirs.
func (t *transport) Close() error {
	for _, p := range t.peers {
		if p != nil {
			p.put(frame{kind: farewellFrame})
		}
	}
	for _, p := range t.peers {
		if p != nil {
			<-p.left
			<-p.sent
			p.conn.Close()
		}
	}
	return nil
}

// transfer is messages under way.
type transfer struct {
	mu   sync.Mutex
	left int
	err  error
	done chan struct{}
}

func (x *transfer) Done() <-chan struct{} { return x.done }
func (x *transfer) Err() error            { return x.err }

func (x *transfer) over(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil {
		x.err = err
	}
	if x.left--; x.left == 0 {
		close(x.done)
	}
}
