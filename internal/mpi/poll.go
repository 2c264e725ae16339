//go:build (linux || darwin) && (amd64 || arm64)

package mpi

import (
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"
)

// request is one call of MPI_Isend or MPI_Irecv.
type request struct {
	engine   *Engine
	comm     uintptr
	peer     int
	tag      uint32
	send     bool
	data     []byte // kept here, and pinned, while MPI uses its address
	note     bool
	transfer *transfer

	pin  runtime.Pinner
	done bool // set when the note has been received
	from int
	n    int
	err  error
}

func (r *request) String() string {
	if r.send {
		return fmt.Sprintf("MPI_Isend of %d bytes to process %d", len(r.data), r.peer)
	}
	if r.note {
		return "MPI_Irecv of a note"
	}
	return fmt.Sprintf("MPI_Irecv of %d bytes from process %d", len(r.data), r.peer)
}

// issue starts what is queued.
func (e *Engine) issue() {
	for e.queued.Load() {
		e.mu.Lock()
		list := e.queue
		e.queue = nil
		e.queued.Store(false)
		e.mu.Unlock()
		for i := range list {
			e.begin(&list[i])
		}
	}
}

// begin makes the call that starts a request.
func (e *Engine) begin(r *request) {
	var address uintptr
	if len(r.data) > 0 {
		r.pin.Pin(&r.data[0])
		address = uintptr(unsafe.Pointer(&r.data[0]))
	}
	size := e.lib.handleBytes
	at := len(e.handles)
	e.handles = append(e.handles, make([]byte, size)...)
	f := e.lib.irecv
	if r.send {
		f = e.lib.isend
	}
	code := f.call(address, uintptr(len(r.data)), e.lib.byte, uintptr(r.peer), uintptr(r.tag), r.comm,
		uintptr(unsafe.Pointer(&e.handles[at])))
	if code != 0 {
		e.handles = e.handles[:at]
		r.pin.Unpin()
		e.end(r, fmt.Errorf("%v: %s", r, e.lib.describe(code)))
		return
	}
	e.active = append(e.active, r)
}

// poll does one round of the engine's work, and reports whether there was any.
func (e *Engine) poll() bool {
	e.issue()
	n := len(e.active)
	if n == 0 {
		return false
	}
	for len(e.indices) < n {
		e.indices = append(e.indices, 0)
		e.status = append(e.status, make([]byte, e.lib.statusBytes)...)
	}
	var count int32
	code := e.lib.testsome.call(
		uintptr(n),
		uintptr(unsafe.Pointer(&e.handles[0])),
		uintptr(unsafe.Pointer(&count)),
		uintptr(unsafe.Pointer(&e.indices[0])),
		uintptr(unsafe.Pointer(&e.status[0])),
	)
	if count <= 0 || count == e.lib.undefined {
		return false
	}
	done := e.indices[:count]
	for i, at := range done {
		e.complete(e.active[at], e.status[i*e.lib.statusBytes:(i+1)*e.lib.statusBytes], code != 0)
	}
	e.remove(done)
	e.deliver()
	e.issue()
	return true
}

// complete handles the status of a completed request. Its error field is valid only if failed is set.
func (e *Engine) complete(r *request, status []byte, failed bool) {
	r.pin.Unpin()
	var err error
	if code := field(status, e.lib.statusError); failed && code != 0 {
		err = fmt.Errorf("%v: %s", r, e.lib.describe(code))
	}
	if !r.send && err == nil {
		var n int32
		e.lib.getCount.call(uintptr(unsafe.Pointer(&status[0])), e.lib.byte, uintptr(unsafe.Pointer(&n)))
		r.n, r.from = int(n), int(field(status, e.lib.statusSource))
		if !r.note && r.n != len(r.data) {
			err = fmt.Errorf("%v: got %d bytes", r, r.n)
		}
	}
	e.end(r, err)
}

// field returns an int field of a status.
func field(status []byte, offset int) int32 { return *(*int32)(unsafe.Pointer(&status[offset])) }

// end completes a request for the goroutines that wait for it.
func (e *Engine) end(r *request, err error) {
	switch {
	case r.transfer != nil:
		r.transfer.over(err)
	case r.send:
		if err != nil {
			e.listen(r.peer, nil, err)
		}
	default:
		r.done, r.err = true, err
	}
}

// remove removes completed requests from the active ones: the last ones are moved into their places.
func (e *Engine) remove(done []int32) {
	size := e.lib.handleBytes
	slices.Sort(done)
	for _, at := range slices.Backward(done) {
		last := len(e.active) - 1
		e.active[at] = e.active[last]
		e.active[last] = nil
		e.active = e.active[:last]
		copy(e.handles[int(at)*size:], e.handles[last*size:(last+1)*size])
		e.handles = e.handles[:last*size]
	}
}

// deliver passes on received notes in the order in which their receives were posted: MPI matches one sender's
// notes in that order, but they may complete in another.
func (e *Engine) deliver() {
	for len(e.ring) > 0 && e.ring[e.head].done {
		r := e.ring[e.head]
		if r.err != nil {
			e.listen(max(r.from, 0), nil, r.err)
			return
		}
		e.listen(r.from, r.data[:r.n], nil)
		r.done = false
		e.begin(r)
		e.head = (e.head + 1) % len(e.ring)
	}
}

const (
	// spinFor is how long a waiting goroutine polls without a pause.
	spinFor = time.Millisecond
	// letAfter is how often it yields to other goroutines. Go wakes a thread each time to run it elsewhere,
	// which takes longer than most waits, and takes a core that another process computes on.
	letAfter = 50 * time.Microsecond
	// shortNap and longNap bound the pauses after that, and those of the background goroutine while idle. A
	// goroutine that needs something drives by itself, so a long pause delays nothing, while a short one takes
	// 2% of the time of a core that computes.
	shortNap = 20 * time.Microsecond
	longNap  = 2 * time.Millisecond
	// underNap is the pause of the background goroutine while messages are in flight: waking up for a round
	// takes 50 µs of a core that computes.
	underNap = 500 * time.Microsecond
	// progressEvery is how much computing time is worth one round, and progressMost the most rounds that
	// Progress makes at once: a round moves as much as the library buffers for a connection.
	progressEvery = 100 * time.Microsecond
	progressMost  = 16
	// awakeFor is how long the background goroutine polls often after something has happened.
	awakeFor = time.Millisecond
)

// napAfter returns how long a goroutine that has waited for a while sleeps before it polls again: at most a
// hundredth of that while. So waiting for a process that computes, or that an overloaded machine does not
// run, takes little time of the cores that it needs.
func napAfter(idle time.Duration) time.Duration { return min(max(shortNap, idle/100), longNap) }

// Drive does the engine's work until one of the channels is closed. If another goroutine does it already,
// this one takes over when that one has finished waiting.
func (e *Engine) Drive(until, stop <-chan struct{}) {
	select {
	case <-until:
		return
	case <-stop:
		return
	default:
	}
	e.drivers.Add(1)
	defer e.drivers.Add(-1)
	select {
	case <-until:
		return
	case <-stop:
		return
	case e.turn <- struct{}{}:
	}
	defer e.giveBack()
	spin := spinFor
	if e.crowded {
		spin = shortNap
	}
	let := time.Now()  // when other goroutines could last run
	var idle time.Time // since when nothing has happened
	for {
		busy := e.poll()
		select {
		case <-until:
			return
		case <-stop:
			return
		default:
		}
		switch now := time.Now(); {
		case busy || idle.IsZero():
			idle = now
		case now.Sub(idle) < spin:
			if now.Sub(let) > letAfter {
				runtime.Gosched()
				let = now
			}
			yield()
		default:
			nap(napAfter(now.Sub(idle)))
		}
	}
}

// Progress does as many rounds of the engine's work as the time since the last call is worth, unless another
// goroutine does them.
func (e *Engine) Progress() {
	now := time.Now().UnixNano()
	passed := time.Duration(now - e.polled.Load())
	if passed < progressEvery || e.drivers.Load() > 0 {
		return
	}
	e.polled.Store(now)
	select {
	case e.turn <- struct{}{}:
	default:
		return
	}
	busy := false
	for range min(passed/progressEvery, progressMost) {
		busy = e.poll() || busy
	}
	e.giveBack()
	if busy { // the goroutine that continues with what arrived may have no other thread to run on
		runtime.Gosched()
	}
}

// background does the engine's work while no goroutine drives: often while messages are in flight, rarely
// when idle.
func (e *Engine) background() {
	last := time.Now()
	for {
		select {
		case <-e.stop:
			return
		default:
		}
		if e.drivers.Load() > 0 || time.Now().UnixNano()-e.polled.Load() < int64(longNap) {
			time.Sleep(longNap)
			continue
		}
		busy, under := false, 0
		select {
		case e.turn <- struct{}{}:
			busy = e.poll()
			under = len(e.active) - len(e.ring)
			e.giveBack()
		default:
		}
		switch {
		case busy:
			last = time.Now()
		case under > 0:
			nap(underNap)
		case time.Since(last) < awakeFor:
			nap(5 * shortNap)
		default:
			time.Sleep(longNap)
		}
	}
}
