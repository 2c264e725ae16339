//go:build (linux || darwin) && (amd64 || arm64)

package mpi

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"
)

// cores returns the number of cores that the process may use.
func cores() int { return runtime.NumCPU() }

// Close finalizes MPI when all processes have called it.
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
		err = e.finalize()
	})
	return err
}

// meet drives the engine until all processes have sent everything.
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

// cancelNotes cancels the receives that wait for notes, and waits until they are cancelled: no process posts
// any more, and MPI_Finalize requires that no request is pending.
func (e *Engine) cancelNotes() {
	for i := range e.active {
		e.lib.cancel.call(uintptr(unsafe.Pointer(&e.handles[i*e.lib.handleBytes])))
	}
	for until := time.Now().Add(time.Second); len(e.active) > 0 && time.Now().Before(until); {
		var count int32
		e.lib.testsome.call(uintptr(len(e.active)), uintptr(unsafe.Pointer(&e.handles[0])),
			uintptr(unsafe.Pointer(&count)), uintptr(unsafe.Pointer(&e.indices[0])),
			uintptr(unsafe.Pointer(&e.status[0])))
		if count == e.lib.undefined {
			return
		}
		if count > 0 {
			e.remove(e.indices[:count])
		}
	}
}

// finalizeFor is how long MPI_Finalize may take: UCX over TCP has been seen to wait forever for a connection
// to close, long after all processes had called it.
const finalizeFor = 5 * time.Second

// finalize calls MPI_Finalize. If it does not return in time it is abandoned: the process is about to exit.
func (e *Engine) finalize() error {
	done := make(chan int32, 1)
	go func() { done <- e.lib.finalize.call() }()
	select {
	case code := <-done:
		if code != 0 {
			return fmt.Errorf("MPI_Finalize: %s", e.lib.describe(code))
		}
	case <-time.After(finalizeFor):
	}
	return nil
}

// AllReduceF32 calls the library's own all-reduce sum of float32s over all processes, for comparison.
func (e *Engine) AllReduceF32(dst, src []byte) error {
	e.turn <- struct{}{}
	defer e.giveBack()
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
