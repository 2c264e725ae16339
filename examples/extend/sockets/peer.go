package sockets

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
)

// The kinds of frames: a byte before their number, length and bytes.
const (
	noteFrame byte = iota
	messageFrame
	farewellFrame
)

// frame is what is to be sent; over, if any, hears when it has been.
type frame struct {
	kind   byte
	number uint32
	data   []byte
	over   func(error)
}

// peer is the connection to one other process.
type peer struct {
	conn net.Conn
	sent chan struct{} // closed when nothing is sent any more
	left chan struct{} // closed when nothing comes any more

	mu     sync.Mutex
	more   *sync.Cond
	queue  []frame
	wanted map[uint32]frame  // receives that have started, by number
	early  map[uint32][]byte // messages that nobody has asked for yet
	err    error             // why the connection is over
}

func newPeer(c net.Conn) *peer {
	p := &peer{conn: c, sent: make(chan struct{}), left: make(chan struct{}), wanted: map[uint32]frame{},
		early: map[uint32][]byte{}}
	p.more = sync.NewCond(&p.mu)
	go p.write()
	return p
}

// put queues a frame; it never waits.
func (p *peer) put(f frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, f)
	p.more.Signal()
}

// write sends what is queued, up to the farewell.
func (p *peer) write() {
	defer close(p.sent)
	for {
		p.mu.Lock()
		for len(p.queue) == 0 {
			p.more.Wait()
		}
		f := p.queue[0]
		p.queue = p.queue[1:]
		p.mu.Unlock()
		head := binary.LittleEndian.AppendUint32([]byte{f.kind}, f.number)
		head = binary.LittleEndian.AppendUint32(head, uint32(len(f.data)))
		buffers := net.Buffers{head, f.data}
		_, err := buffers.WriteTo(p.conn)
		if f.over != nil {
			f.over(err)
		}
		if f.kind == farewellFrame {
			return
		}
	}
}

// want has the message of a number read into dst.
func (p *peer) want(number uint32, dst []byte, over func(error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if data, ok := p.early[number]; ok {
		delete(p.early, number)
		copy(dst, data)
		over(fits(number, len(data), len(dst)))
		return
	}
	if p.err != nil {
		over(p.err)
		return
	}
	p.wanted[number] = frame{data: dst, over: over}
}

func fits(number uint32, got, want int) error {
	if got != want {
		return fmt.Errorf("sockets: message %d has %d bytes: want %d", number, got, want)
	}
	return nil
}

// read hands notes and messages to whom they are for until the other process leaves. An error is that it did
// so without a farewell.
func (p *peer) read(note func([]byte)) error {
	err := p.readFrames(note)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err = err; err == nil {
		p.err = io.EOF
	}
	for _, f := range p.wanted {
		f.over(p.err)
	}
	clear(p.wanted)
	close(p.left)
	return err
}

func (p *peer) readFrames(note func([]byte)) error {
	r := bufio.NewReaderSize(p.conn, 64<<10)
	for {
		var head [9]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return err
		}
		number, n := binary.LittleEndian.Uint32(head[1:]), int(binary.LittleEndian.Uint32(head[5:]))
		switch head[0] {
		case farewellFrame:
			return nil
		case messageFrame:
			if err := p.readMessage(r, number, n); err != nil {
				return err
			}
		default:
			b := make([]byte, n)
			if _, err := io.ReadFull(r, b); err != nil {
				return err
			}
			note(b)
		}
	}
}

// readMessage reads a message to where it is wanted, or keeps it.
func (p *peer) readMessage(r io.Reader, number uint32, n int) error {
	p.mu.Lock()
	f, ok := p.wanted[number]
	delete(p.wanted, number)
	p.mu.Unlock()
	if ok && len(f.data) == n {
		_, err := io.ReadFull(r, f.data)
		f.over(err)
		return err
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	if ok {
		f.over(fits(number, n, len(f.data)))
		return nil
	}
	p.mu.Lock()
	f, ok = p.wanted[number] // asked for while it came
	delete(p.wanted, number)
	if !ok {
		p.early[number] = b
	}
	p.mu.Unlock()
	if ok {
		copy(f.data, b)
		f.over(fits(number, n, len(f.data)))
	}
	return nil
}
