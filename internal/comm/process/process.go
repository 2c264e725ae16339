package process

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
)

// Process is this process's membership in a job.
type Process struct {
	transport comm.Transport
	progress  func() // advances messages in flight; nil if they advance by themselves
	rank      int
	size      int
	scratch   sync.Pool // of *comm.Scratch
	short     int       // the most bytes of a group's operands, in all, that are sent in notes
	segment   int       // how much of a long reduction is exchanged at a time, so that exchange and sum overlap

	// guards all fields below and the state of worlds and runs; arrays are never accessed under it
	mu              sync.Mutex
	worlds          []*World
	early           map[int][]note // of worlds that this process has not made yet
	parts           [][]byte       // by sender: the first parts of an incomplete note
	numbers         []uint32       // by peer: the number of the next message
	lastNote        []time.Time    // by peer: when its last note arrived
	patience        time.Duration  // how long a process that is waited for may be silent
	checkedAt       time.Time      // when silence was last checked
	lost            []error        // by peer: why it is lost
	over            error          // why no further run can start
	ended           chan struct{}  // closed when over is set
	values          map[string]*value
	exchanges       map[Stream]int // how many have started
	gatherings      map[gatheringKey]*gathering
	left            []*LeftError // by process: why it left, without text if without an error; nil before
	allLeft         gate
	failureReported gate               // open when the first process has reported why the job ends
	onFailure       func(errs []error) // of the first process, until it is called
	free            [][]byte           // buffers that are not in use
}

const (
	shortBytes   = 16 << 10
	segmentBytes = 4 << 20
)

// Join makes this process part of the job that the transport connects.
func Join(t comm.Transport) *Process {
	n := t.Size()
	p := &Process{
		transport: t, progress: comm.Progress(t), rank: t.Rank(), size: n, early: map[int][]note{},
		parts: make([][]byte, n), numbers: make([]uint32, n), lastNote: make([]time.Time, n),
		lost:  make([]error, n),
		ended: make(chan struct{}), values: map[string]*value{}, exchanges: map[Stream]int{},
		gatherings: map[gatheringKey]*gathering{}, left: make([]*LeftError, n), allLeft: newGate(),
		failureReported: newGate(), short: shortBytes, segment: segmentBytes, patience: patience,
	}
	p.scratch.New = func() any { return new(comm.Scratch) }
	for i := range p.lastNote {
		p.lastNote[i] = time.Now()
	}
	t.Listen(p.listen)
	return p
}

// SetPatience sets how long a process that is waited for may be silent, instead of 8 s. It must be called
// before anything else.
func (p *Process) SetPatience(d time.Duration) { p.patience = d }

// Lengths sets the length above which a group's operands are sent as messages, and the segment of reductions:
// for tests of both paths without long operands.
func (p *Process) Lengths(short, segment int) { p.short, p.segment = short, segment }

// Rank returns this process's number, below Size.
func (p *Process) Rank() int { return p.rank }

// Size returns the number of processes.
func (p *Process) Size() int { return p.size }

// Close ends the transport: all processes call it.
func (p *Process) Close() error { return p.transport.Close() }

// NewWorld makes a world; owner gives the process of each rank. All processes make the same worlds in the
// same order.
func (p *Process) NewWorld(owner []int) (*World, error) {
	if len(owner) == 0 {
		return nil, fmt.Errorf("world: 0 ranks: want at least one")
	}
	for rank, process := range owner {
		if process < 0 || process >= p.size {
			return nil, fmt.Errorf("world: rank %d: process %d: want one below %d", rank, process, p.size)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &World{p: p, id: len(p.worlds), owner: slices.Clone(owner), stats: make([]comm.Stats, len(owner)),
		early: map[int][]note{}}
	p.worlds = append(p.worlds, w)
	for _, n := range p.early[w.id] {
		w.early[n.run] = append(w.early[n.run], n)
	}
	delete(p.early, w.id)
	return w, nil
}

// post sends a note, in parts if it is longer than the transport's limit.
func (p *Process) post(to int, b []byte) {
	const room = comm.NoteBytes - 1
	for len(b) > room {
		p.transport.Post(to, append([]byte{1}, b[:room]...))
		b = b[room:]
	}
	p.transport.Post(to, append([]byte{0}, b...))
}

// postAll sends a note to all other processes.
func (p *Process) postAll(b []byte) {
	for q := range p.size {
		if q != p.rank {
			p.post(q, b)
		}
	}
}

// listen handles a note of the transport. It runs on the goroutine that drives the transport.
func (p *Process) listen(from int, b []byte, err error) {
	if err == nil && len(b) == 0 {
		err = fmt.Errorf("an empty note")
	}
	if err != nil {
		p.lose(from, err)
		return
	}
	p.mu.Lock()
	p.lastNote[from] = time.Now()
	more, b := b[0] == 1, b[1:]
	if more || p.parts[from] != nil {
		p.parts[from] = append(p.parts[from], b...)
		b = p.parts[from]
	}
	if more {
		p.mu.Unlock()
		return
	}
	p.parts[from] = nil
	p.mu.Unlock()
	n, err := parseNote(from, b)
	if err != nil {
		p.lose(from, err)
		return
	}
	switch n.kind {
	case askNote: // answered by the process, whatever state its worlds are in
		p.post(from, header(answerNote, 0, 0))
	case answerNote:
	case exchangeNote:
		p.give(gatheringKey{n.world, n.run}, from, n.body)
	case putNote:
		r := &reader{rest: n.body}
		if key := r.string(); r.bad || p.keep(key, r.rest) != nil {
			p.lose(from, fmt.Errorf("a key of its cannot be kept: %d bytes", len(n.body)))
		}
	case reportedNote:
		p.failureReported.open()
	case leaveNote:
		if why, err := p.readLeave(n.body); err != nil {
			p.lose(from, err)
		} else {
			p.leave(from, why)
		}
	default:
		if s := p.find(n); s != nil {
			s.get(n)
		}
	}
}

// find returns the run that a note is for; nil if it has ended, or has not started: the note is then kept.
func (p *Process) find(n note) *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.world >= len(p.worlds) {
		p.early[n.world] = append(p.early[n.world], n.kept())
		return nil
	}
	w := p.worlds[n.world]
	switch s := w.current; {
	case n.run < w.runs && s != nil && s.number == n.run:
		return s
	case n.run >= w.runs:
		w.early[n.run] = append(w.early[n.run], n.kept())
	}
	return nil
}

// lose records that a process is lost.
func (p *Process) lose(process int, err error) {
	p.mu.Lock()
	if p.left[process] == nil {
		p.left[process] = &LeftError{Process: process}
	}
	done := !slices.Contains(p.left, nil)
	p.mu.Unlock()
	if done {
		p.allLeft.open()
	}
	if process == 0 {
		p.failureReported.open()
	}
	p.breakOff(process, fmt.Errorf("process %d %s: %w", process, lostText, err))
}

// breakOff ends everything that waits for a process, unless the process has already done its part.
func (p *Process) breakOff(process int, err error) {
	p.mu.Lock()
	if p.lost[process] != nil {
		p.mu.Unlock()
		return
	}
	p.lost[process] = err
	p.setOver(err)
	var runs []*run
	for _, w := range p.worlds {
		if s := w.current; s != nil {
			runs = append(runs, s)
		}
	}
	for _, g := range p.gatherings {
		if g.parts[process] == nil {
			g.close()
		}
	}
	p.mu.Unlock()
	for _, s := range runs { // queued behind its unhandled notes: the note of its end may be among them
		s.get(note{from: process, kind: lostNote, lost: err})
	}
}

// setOver records why no further run can start, unless that is set. p.mu is held.
func (p *Process) setOver(err error) {
	if p.over == nil {
		p.over = err
		close(p.ended)
	}
}

// number reserves numbers for n messages to a peer. p.mu is held.
func (p *Process) number(peer, n int) uint32 {
	first := p.numbers[peer]
	p.numbers[peer] += uint32(n)
	return first
}

// buffersKept is the most buffers that are kept for reuse.
const buffersKept = 8

// buffer returns n bytes, aligned for any element type.
func (p *Process) buffer(n int) []byte {
	p.mu.Lock()
	for i, b := range p.free {
		if cap(b) >= n && cap(b) <= 4*n+comm.NoteBytes {
			p.free = slices.Delete(p.free, i, i+1)
			p.mu.Unlock()
			return b[:n]
		}
	}
	p.mu.Unlock()
	return array.New(array.U8, n).Bytes()
}

// release returns a buffer for reuse; it must not be read or written any more.
func (p *Process) release(b []byte) {
	if len(b) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == buffersKept {
		p.free = slices.Delete(p.free, 0, 1)
	}
	p.free = append(p.free, b)
}

// header returns the first bytes of a note.
func header(kind noteKind, world, run int) []byte {
	b := append(make([]byte, 0, 128), byte(kind))
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(world)), uint64(run))
}
