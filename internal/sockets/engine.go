package sockets

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/galley-ml/galley/internal/comm"
)

// Engine is the transport. Every other process has a goroutine that writes to it and one that reads.
type Engine struct {
	rank, size int
	peers      []*peer // by rank; this process's own has no connection
	listen     func(from int, note []byte, err error)
	closed     sync.Once
}

var _ comm.Transport = (*Engine)(nil)

// peer is another process.
type peer struct {
	e    *Engine
	rank int
	conn net.Conn

	mu   sync.Mutex
	more *sync.Cond // queue has grown, or the connection is lost
	// queue is what is to be written; posted are receives that wait, came what nobody has asked for yet, both
	// by number.
	queue  []frame
	posted map[uint32][]receive
	came   map[uint32][][]byte
	lost   error
	// bye is closed when the process has said that it has no more to say, or is lost.
	bye  chan struct{}
	left sync.Once
}

// frame is something to be written; over is told when it has been.
type frame struct {
	kind   byte
	number uint32
	data   []byte
	over   func(error)
}

// receive is memory that a message goes to.
type receive struct {
	data []byte
	over func(error)
}

// Kinds of frames.
const (
	noteFrame byte = iota + 1
	messageFrame
	byeFrame
)

// headBytes is a frame's kind, its number and its length.
const headBytes = 1 + 4 + 8

// newEngine returns an engine without connections.
func newEngine(rank, size int) *Engine {
	e := &Engine{rank: rank, size: size}
	for i := range size {
		p := &peer{e: e, rank: i, posted: map[uint32][]receive{}, came: map[uint32][][]byte{},
			bye: make(chan struct{})}
		p.more = sync.NewCond(&p.mu)
		e.peers = append(e.peers, p)
	}
	return e
}

// Rank returns this process's place.
func (e *Engine) Rank() int { return e.rank }

// Size returns the number of processes.
func (e *Engine) Size() int { return e.size }

// Version returns what connects the processes, for people.
func (e *Engine) Version() string { return "TCP, without an MPI library" }

// Listen begins to read.
func (e *Engine) Listen(f func(from int, note []byte, err error)) {
	e.listen = f
	for _, p := range e.peers {
		if p.conn != nil {
			go p.write()
			go p.read()
		}
	}
}

// Post sends a note.
func (e *Engine) Post(to int, note []byte) {
	e.peers[to].send(frame{kind: noteFrame, data: append([]byte(nil), note...), over: func(error) {}})
}

// Drive has nothing to do: every connection has its goroutines.
func (e *Engine) Drive(until, stop <-chan struct{}) {
	select {
	case <-until:
	case <-stop:
	}
}

// transfer is messages under way.
type transfer struct {
	mu   sync.Mutex
	left int
	err  error
	done chan struct{}
}

// Done is closed when all messages are over.
func (t *transfer) Done() <-chan struct{} { return t.done }

// Err returns the first thing that went wrong.
func (t *transfer) Err() error { return t.err }

func (t *transfer) over(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
	if t.left--; t.left == 0 {
		close(t.done)
	}
}

// Start sends and receives messages.
func (e *Engine) Start(messages []comm.Message) comm.Transfer {
	t := &transfer{left: len(messages), done: make(chan struct{})}
	if t.left == 0 {
		close(t.done)
	}
	for _, m := range messages {
		if m.Send {
			e.peers[m.Peer].send(frame{kind: messageFrame, number: m.Number, data: m.Data, over: t.over})
		} else {
			e.peers[m.Peer].receive(m.Number, receive{m.Data, t.over})
		}
	}
	return t
}

// send queues a frame. One to a process that is lost is over at once.
func (p *peer) send(f frame) {
	p.mu.Lock()
	lost := p.lost
	if lost == nil {
		p.queue = append(p.queue, f)
		p.more.Signal()
	}
	p.mu.Unlock()
	if lost != nil {
		f.over(lost)
	}
}

// receive takes a message that has come, or has it go to memory when it does.
func (p *peer) receive(number uint32, r receive) {
	p.mu.Lock()
	came, lost := p.came[number], p.lost
	switch {
	case len(came) > 0:
		p.came[number] = came[1:]
		if len(came) == 1 {
			delete(p.came, number)
		}
	case lost == nil:
		p.posted[number] = append(p.posted[number], r)
	}
	p.mu.Unlock()
	switch {
	case len(came) > 0:
		r.fill(came[0])
	case lost != nil:
		r.over(lost)
	}
}

func (r receive) fill(data []byte) {
	if len(data) != len(r.data) {
		r.over(fmt.Errorf("a message of %d bytes: want %d", len(data), len(r.data)))
		return
	}
	copy(r.data, data)
	r.over(nil)
}

// write writes what is queued, all that there is at a time.
func (p *peer) write() {
	for {
		p.mu.Lock()
		for len(p.queue) == 0 && p.lost == nil {
			p.more.Wait()
		}
		list := p.queue
		p.queue = nil
		p.mu.Unlock()
		if len(list) == 0 {
			return // lost
		}
		buffers := make(net.Buffers, 0, 2*len(list))
		for _, f := range list {
			head := make([]byte, headBytes)
			head[0] = f.kind
			binary.LittleEndian.PutUint32(head[1:], f.number)
			binary.LittleEndian.PutUint64(head[5:], uint64(len(f.data)))
			buffers = append(buffers, head, f.data)
		}
		_, err := buffers.WriteTo(p.conn)
		if err != nil {
			p.fail(err)
			err = p.why()
		}
		for _, f := range list {
			f.over(err)
		}
	}
}

// read takes what the process sends.
func (p *peer) read() {
	in := bufio.NewReaderSize(p.conn, 64<<10)
	head, note := make([]byte, headBytes), make([]byte, comm.NoteBytes)
	for {
		if _, err := io.ReadFull(in, head); err != nil {
			p.fail(err)
			return
		}
		number, n := binary.LittleEndian.Uint32(head[1:]), binary.LittleEndian.Uint64(head[5:])
		var err error
		switch {
		case head[0] == byeFrame:
			p.leave()
		case head[0] == noteFrame && n <= comm.NoteBytes:
			if _, err = io.ReadFull(in, note[:n]); err == nil {
				p.e.listen(p.rank, note[:n], nil)
			}
		case head[0] == messageFrame:
			err = p.take(in, number, n)
		default:
			err = fmt.Errorf("a frame of kind %d and %d bytes", head[0], n)
		}
		if err != nil {
			p.fail(err)
			return
		}
	}
}

// take reads a message into the memory that waits for it, or keeps it until somebody asks.
func (p *peer) take(in io.Reader, number uint32, n uint64) error {
	if r, ok := p.waiting(number); ok {
		if uint64(len(r.data)) == n {
			_, err := io.ReadFull(in, r.data)
			if err != nil {
				p.fail(err)
				err = p.why()
			}
			r.over(err)
			return err
		}
		r.over(fmt.Errorf("a message of %d bytes: want %d", n, len(r.data)))
		_, err := io.CopyN(io.Discard, in, int64(n))
		return err
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(in, data); err != nil {
		return err
	}
	p.mu.Lock()
	r, ok := p.next(number) // it may have been asked for meanwhile
	if !ok {
		p.came[number] = append(p.came[number], data)
	}
	p.mu.Unlock()
	if ok {
		r.fill(data)
	}
	return nil
}

func (p *peer) waiting(number uint32) (receive, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next(number)
}

// next takes the receive that has waited longest for a number.
func (p *peer) next(number uint32) (r receive, ok bool) {
	list := p.posted[number]
	if len(list) == 0 {
		return r, false
	}
	if p.posted[number] = list[1:]; len(list) == 1 {
		delete(p.posted, number)
	}
	return list[0], true
}

func (p *peer) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// leave notes that the process has no more to say.
func (p *peer) leave() { p.left.Do(func() { close(p.bye) }) }

// fail notes that the connection is lost: whatever is under way is over.
func (p *peer) fail(err error) {
	p.mu.Lock()
	if p.lost != nil {
		p.mu.Unlock()
		return
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the connection is closed")
	}
	p.lost = fmt.Errorf("process %d: %w", p.rank, err)
	queue, posted := p.queue, p.posted
	p.queue, p.posted = nil, map[uint32][]receive{}
	p.more.Signal()
	p.mu.Unlock()
	select {
	case <-p.bye: // it has left in order
	default:
		p.e.listen(p.rank, nil, err)
	}
	for _, f := range queue {
		f.over(p.lost)
	}
	for _, list := range posted {
		for _, r := range list {
			r.over(p.lost)
		}
	}
	p.leave()
}

// Close ends the engine when all processes have called it, or are lost.
func (e *Engine) Close() error {
	e.closed.Do(func() {
		var said sync.WaitGroup
		for _, p := range e.peers {
			if p.conn != nil {
				said.Add(1)
				p.send(frame{kind: byeFrame, over: func(error) { said.Done() }})
			}
		}
		said.Wait()
		for _, p := range e.peers {
			if p.conn != nil {
				<-p.bye
				p.conn.Close()
			}
		}
	})
	return nil
}
