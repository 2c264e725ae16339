//go:build (linux || darwin) && (amd64 || arm64)

package mpi

import (
	"fmt"
	"runtime"
	"unsafe"
)

// cores is how many the process may use.
func cores() int { return runtime.NumCPU() }

// Close ends MPI when all processes have come to it.
func (e *Engine) Close() (err error) {
	e.closed.Do(func() {
		close(e.stop)
		e.stopped.Wait()
		e.turn <- struct{}{}
		defer func() { <-e.turn }()
		if err = e.meet(); err != nil {
			return
		}
		e.cancelNotes()
		if code := e.lib.finalize.call(); code != 0 {
			err = fmt.Errorf("MPI_Finalize: %s", e.lib.describe(code))
		}
	})
	return err
}

// meet works until all processes have sent what they had to send.
func (e *Engine) meet() error {
	t := &transfer{done: make(chan struct{})}
	t.left.Store(1)
	r := &request{engine: e, send: true, transfer: t}
	e.issue()
	at := len(e.handles)
	e.handles = append(e.handles, make([]byte, e.lib.handleBytes)...)
	if code := e.lib.ibarrier.call(e.messages, uintptr(unsafe.Pointer(&e.handles[at]))); code != 0 {
		return fmt.Errorf("MPI_Ibarrier: %s", e.lib.describe(code))
	}
	e.active = append(e.active, r)
	for {
		e.poll()
		select {
		case <-t.done:
			return t.err
		default:
			nap(shortNap)
		}
	}
}

// cancelNotes takes back the receives that wait for notes: nobody posts any more.
func (e *Engine) cancelNotes() {
	for i := range e.active {
		e.lib.cancel.call(uintptr(unsafe.Pointer(&e.handles[i*e.lib.handleBytes])))
	}
}

// AllReduceF32 is the library's own sum of float32s over all processes, to compare with.
func (e *Engine) AllReduceF32(dst, src []byte) error {
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	e.issue() // the call below waits for other processes, and they may wait for what is queued here
	code := e.lib.allreduce.call(uintptr(unsafe.Pointer(&src[0])), uintptr(unsafe.Pointer(&dst[0])),
		uintptr(len(src)/4), e.lib.float, e.lib.sum, e.messages)
	if code != 0 {
		return fmt.Errorf("MPI_Allreduce of %d bytes: %s", len(src), e.lib.describe(code))
	}
	return nil
}

// Abort ends all processes of the job at once.
func (e *Engine) Abort(code int) {
	e.turn <- struct{}{}
	e.lib.abort.call(e.lib.world, uintptr(code))
}
