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

// Process is this process's place in a job.
type Process struct {
	transport comm.Transport
	rank      int
	size      int
	scratch   sync.Pool // of *comm.Scratch
	short     int       // how much the operands of a group may have in all to travel in notes
	segment   int       // how much of a long reduction is exchanged at a time: exchange and sum overlap

	// guards all that follows and the state of worlds and runs; no array is touched under it
	mu         sync.Mutex
	worlds     []*World
	early      map[int][]note // of worlds that this process has not made yet
	parts      [][]byte       // by sender: the beginning of a note that is not complete
	numbers    []uint32       // by peer: of the next message
	heard      []time.Time    // by peer
	patience   time.Duration  // how long a process may be silent that is waited for
	looked     time.Time      // when that was last looked at
	lost       []error        // by peer: why nothing more will come of it
	over       error          // why no further run can begin
	ended      chan struct{}  // closed when over is set
	values     map[string]*value
	exchanges  map[Stream]int // how many have begun
	gatherings map[gatheringKey]*gathering
	left       []*LeftError // by process: why it left, without a text if it had no error; nil before
	allLeft    gate
	told       gate               // open when the first process has told why the job ends
	onFailure  func(errs []error) // of the first process, until it is called
	free       [][]byte           // buffers that are not in use
}

const (
	shortBytes   = 16 << 10
	segmentBytes = 4 << 20
)

// Join makes this process part of the job that the transport connects.
func Join(t comm.Transport) *Process {
	n := t.Size()
	p := &Process{
		transport: t, rank: t.Rank(), size: n, early: map[int][]note{}, parts: make([][]byte, n),
		numbers: make([]uint32, n), heard: make([]time.Time, n), lost: make([]error, n),
		ended: make(chan struct{}), values: map[string]*value{}, exchanges: map[Stream]int{},
		gatherings: map[gatheringKey]*gathering{}, left: make([]*LeftError, n), allLeft: newGate(),
		told: newGate(), short: shortBytes, segment: segmentBytes, patience: patience,
	}
	p.scratch.New = func() any { return new(comm.Scratch) }
	for i := range p.heard {
		p.heard[i] = time.Now()
	}
	t.Listen(p.listen)
	return p
}

// SetPatience sets how long a process may be silent that is waited for, instead of 8 s. It is called before
// anything else.
func (p *Process) SetPatience(d time.Duration) { p.patience = d }

// Lengths makes operands of a group longer than short bytes go by messages, and reductions in segments: for
// suites that are to try both without long operands.
func (p *Process) Lengths(short, segment int) { p.short, p.segment = short, segment }

// Rank returns this process's place among Size.
func (p *Process) Rank() int { return p.rank }

// Size returns the number of processes.
func (p *Process) Size() int { return p.size }

// Close ends the transport: all processes call it.
func (p *Process) Close() error { return p.transport.Close() }

// NewWorld makes a world whose ranks live in the given processes. All processes make the same worlds in the
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

// post sends a note, in parts where it is longer than the transport takes.
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

// listen gets what the transport brings. It runs on the goroutine that drives.
func (p *Process) listen(from int, b []byte, err error) {
	if err == nil && len(b) == 0 {
		err = fmt.Errorf("an empty note")
	}
	if err != nil {
		p.lose(from, err)
		return
	}
	p.mu.Lock()
	p.heard[from] = time.Now()
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
	case askNote: // answered by the process, whatever its worlds do
		p.post(from, header(answerNote, 0, 0))
	case answerNote:
	case giveNote:
		p.give(gatheringKey{n.world, n.run}, from, n.body)
	case putNote:
		r := &reader{rest: n.body}
		if key := r.string(); r.bad || p.keep(key, r.rest) != nil {
			p.lose(from, fmt.Errorf("a key of its cannot be kept: %d bytes", len(n.body)))
		}
	case toldNote:
		p.told.open()
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

// find returns the run that a note is for; nil if it is over, or has not begun here, when the note is kept.
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

// lose says that nothing more will come of a process.
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
		p.told.open()
	}
	p.breakOff(process, fmt.Errorf("process %d %s: %w", process, lostText, err))
}

// breakOff ends all that waits for a process: not what it has done its part of.
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
	for _, s := range runs { // behind its notes that wait to be handled: the one of its end may be among them
		s.get(note{from: process, kind: goneNote, gone: err})
	}
}

// setOver says why no further run can begin, unless that is known. p.mu is held.
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

// buffersKept is the most buffers that are kept for later exchanges.
const buffersKept = 8

// buffer returns n bytes at an address that any element may have.
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

// release takes back a buffer that nobody reads or writes any more.
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

// header begins a note.
func header(kind noteKind, world, run int) []byte {
	b := append(make([]byte, 0, 128), byte(kind))
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(world)), uint64(run))
}
