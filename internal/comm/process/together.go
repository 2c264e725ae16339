package process

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Stream is a sequence of exchanges, in which the n-th ones of all processes belong together. Exchanges of
// different streams may run at the same time.
type Stream int

// gatheringKey identifies an exchange.
type gatheringKey struct{ stream, number int }

// gathering collects what processes give each other.
type gathering struct {
	parts   [][]byte
	missing int
	done    chan struct{} // closed when no data is missing, or the job is over
	closed  bool
}

// Exchange returns the data of all processes, by process: an all-gather between processes, for a few bytes
// each.
func (p *Process) Exchange(stream Stream, data []byte) ([][]byte, error) {
	p.mu.Lock()
	if p.over != nil {
		defer p.mu.Unlock()
		return nil, p.over
	}
	key := gatheringKey{int(stream), p.exchanges[stream]}
	p.exchanges[stream]++
	g := p.gathering(key)
	p.mu.Unlock()
	p.postAll(append(header(exchangeNote, key.stream, key.number), data...))
	p.give(key, p.rank, data)
	stop := p.watch(func(now time.Time) { p.lookAt(g, now) })
	p.transport.Drive(g.done, nil)
	stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.gatherings, key)
	if g.missing > 0 {
		return nil, p.over
	}
	return g.parts, nil
}

// gathering returns the exchange of a key; the first to arrive makes it.
func (p *Process) gathering(key gatheringKey) *gathering {
	g := p.gatherings[key]
	if g == nil {
		g = &gathering{parts: make([][]byte, p.size), missing: p.size, done: make(chan struct{})}
		p.gatherings[key] = g
	}
	return g
}

// give records the data of one process.
func (p *Process) give(key gatheringKey, from int, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.gathering(key)
	if g.parts[from] != nil {
		return
	}
	g.parts[from] = append(make([]byte, 0, len(data)+1), data...)
	if g.missing--; g.missing == 0 {
		g.close()
	}
}

func (g *gathering) close() {
	if !g.closed {
		g.closed = true
		close(g.done)
	}
}

// lookAt sends liveness checks to processes that have not given their data.
func (p *Process) lookAt(g *gathering, now time.Time) {
	p.mu.Lock()
	since := now.Add(-probeAfter)
	silent, err := p.silent(now, func(q int) (time.Time, string) {
		if g.parts[q] != nil {
			return since, ""
		}
		return p.lastNote[q], "the others wait for it"
	})
	p.mu.Unlock()
	if err != nil {
		p.lose(silent, err)
	}
}

// LeftError is the error that another process has left the job with.
type LeftError struct {
	Process int
	Text    string
}

// Error prints the process and its error.
func (e *LeftError) Error() string { return fmt.Sprintf("process %d: %s", e.Process, e.Text) }

// leaveWithin is how long at most a process that has failed waits for the others: 5 s of the default patience
// of 8 s, so that all end soon after a failure, and longer if patience was raised because overloaded cores
// make healthy processes slow.
func (p *Process) leaveWithin() time.Duration { return p.patience * 5 / 8 }

// OnFailure makes the first process call f once, leaveWithin after another has left with an error, even while
// it is busy: the others wait for it to report why. The argument is the errors of all processes that have
// left, by process.
func (p *Process) OnFailure(f func(errs []error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onFailure = f
	p.scheduleFailure()
}

// scheduleFailure schedules onFailure if a process has left with an error. p.mu is held.
func (p *Process) scheduleFailure() {
	failed := func(why *LeftError) bool { return why != nil && why.Text != "" }
	if f := p.onFailure; f != nil && p.rank == 0 && slices.ContainsFunc(p.left, failed) {
		p.onFailure = nil
		time.AfterFunc(p.leaveWithin(), func() { f(p.leftWith()) })
	}
}

// Leave notifies the other processes that this one is about to end, and with what error, which ends all their
// waits, and waits until they leave as well. It returns the errors of all, by process: nil for those without
// an error or without a note so far.
func (p *Process) Leave(err error) []error {
	why := LeftError{Process: p.rank}
	if echo, ok := errors.AsType[*LeftError](err); ok {
		why = *echo
	} else if err != nil {
		why.Text = err.Error()
	}
	p.postAll(appendString(appendCount(header(leaveNote, 0, 0), why.Process), why.Text))
	p.leave(p.rank, why)
	p.mu.Lock()
	failed := p.over != nil
	p.mu.Unlock()
	if err != nil || failed {
		timer := time.AfterFunc(p.leaveWithin(), p.allLeft.open)
		defer timer.Stop()
	}
	p.transport.Drive(p.allLeft.opened, nil)
	errs := p.leftWith()
	errs[p.rank] = err
	return errs
}

// leftWith returns the errors of the processes that have left so far.
func (p *Process) leftWith() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	errs := make([]error, p.size)
	for q, why := range p.left {
		if why != nil && why.Text != "" {
			errs[q] = why
		}
	}
	return errs
}

// Tell makes the first process call tell after all have left, while the others wait for it: a launcher kills
// all processes as soon as one has ended with an error, and the report of the first would be lost.
func (p *Process) Tell(tell func()) {
	if p.rank == 0 {
		tell()
		p.postAll(header(reportedNote, 0, 0))
		return
	}
	timer := time.AfterFunc(p.leaveWithin(), p.failureReported.open)
	defer timer.Stop()
	p.transport.Drive(p.failureReported.opened, nil)
}

// gate is a condition to wait for; opening it more than once is allowed.
type gate struct {
	once   *sync.Once
	opened chan struct{}
}

func newGate() gate { return gate{new(sync.Once), make(chan struct{})} }

func (g gate) open() { g.once.Do(func() { close(g.opened) }) }

// readLeave reads the error that a process left with.
func (p *Process) readLeave(b []byte) (LeftError, error) {
	r := &reader{rest: b}
	why := LeftError{Process: r.count(p.size - 1), Text: r.string()}
	if r.bad {
		return why, fmt.Errorf("a note of %d bytes cannot be read", len(b))
	}
	return why, nil
}

// leave records that a process has left, and why.
func (p *Process) leave(process int, why LeftError) {
	p.mu.Lock()
	if p.left[process] == nil {
		p.left[process] = &why
	}
	done := !slices.Contains(p.left, nil)
	p.scheduleFailure()
	p.mu.Unlock()
	if done {
		p.allLeft.open()
	}
	if process == p.rank {
		return
	}
	err := error(&why)
	if why.Text == "" {
		err = fmt.Errorf("process %d has ended", process)
	}
	p.breakOff(process, err)
}
