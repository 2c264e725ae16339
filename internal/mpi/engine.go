//go:build (linux || darwin) && (amd64 || arm64)

package mpi

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/galley-ml/galley/internal/comm"
)

// Engine is the transport of an MPI job. One goroutine at a time holds the turn to make MPI calls.
type Engine struct {
	lib             *library
	rank, size      int
	notes, messages uintptr // communicators
	tags            uint32  // message numbers are counted modulo this
	listen          func(from int, note []byte, err error)
	crowded         bool // more processes than cores: do not spin

	turn    chan struct{} // holds one token while a goroutine makes calls
	drivers atomic.Int32  // the number of goroutines that wait and drive
	queued  atomic.Bool
	polled  atomic.Int64 // when Progress was last called, in ns
	stop    chan struct{}
	stopped sync.WaitGroup
	closed  sync.Once

	mu    sync.Mutex
	queue []request // to be started

	// The fields below belong to the goroutine that holds the turn.
	ring    []*request // receives of notes, in the order in which they were started, from head on
	head    int
	active  []*request
	handles []byte // of active, one after the other
	indices []int32
	status  []byte
}

var _ comm.Transport = (*Engine)(nil)

// Library returns the version of the MPI library that would be loaded for a family.
func Library(family Family) (string, error) {
	l, err := load(family, purego.RTLD_LOCAL)
	if err != nil {
		return "", err
	}
	if l.family != family {
		return "", fmt.Errorf("%s is %s: want %s", l.file, l.family, family)
	}
	return fmt.Sprintf("%s (%s)", l.version, l.file), nil
}

// Open loads the library of the job's launcher and joins the job.
func Open(job Job) (*Engine, error) {
	l, err := load(job.Family, purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("mpi: started by %s: %w", job.Launcher, err)
	}
	if l.family != job.Family {
		return nil, fmt.Errorf("mpi: started by %s, which serves %s; but %s is %s: set %s to %s's, or use its "+
			"launcher",
			job.Launcher, job.Family, l.file, l.family, LibraryVariable, job.Family)
	}
	e := &Engine{lib: l, turn: make(chan struct{}, 1), stop: make(chan struct{})}
	abortQuietly()
	if err := e.join(); err != nil {
		return nil, fmt.Errorf("mpi: %s: %w", l.version, err)
	}
	if job.Size > 0 && e.size != job.Size {
		return nil, fmt.Errorf("mpi: %s says %d processes, %s has %d: does %s serve this library?", job.Launcher,
			job.Size, l.file, e.size, job.Launcher)
	}
	return e, nil
}

// abortQuietly suppresses Go's stack dump when the library aborts the process, as UCX does when it reads the
// memory of a killed process: the cause is reported by the launcher or by what killed that process. C's abort
// still ends the process after a handler that returns.
func abortQuietly() { signal.Notify(make(chan os.Signal, 1), syscall.SIGABRT) }

// join initializes MPI and makes Galley's own communicators.
func (e *Engine) join() error {
	l := e.lib
	var provided, rank, size int32
	if code := l.initThread.call(0, 0, uintptr(l.threadsWanted), uintptr(unsafe.Pointer(&provided))); code != 0 {
		return fmt.Errorf("MPI_Init_thread: error %d", code)
	}
	if provided < l.threadsWanted {
		return fmt.Errorf("MPI_Init_thread: threads: got level %d, want %d (serialized)", provided, l.threadsWanted)
	}
	for _, to := range []*uintptr{&e.notes, &e.messages} {
		if err := e.duplicate(to); err != nil {
			return err
		}
	}
	l.commRank.call(e.notes, uintptr(unsafe.Pointer(&rank)))
	l.commSize.call(e.notes, uintptr(unsafe.Pointer(&size)))
	e.rank, e.size = int(rank), int(size)
	e.crowded = size > int32(cores())
	return e.askTags()
}

// duplicate duplicates MPI_COMM_WORLD with errors returned instead of fatal.
func (e *Engine) duplicate(to *uintptr) error {
	handle := make([]byte, 8)
	if code := e.lib.commDup.call(e.lib.world, uintptr(unsafe.Pointer(&handle[0]))); code != 0 {
		return fmt.Errorf("MPI_Comm_dup: %s", e.lib.describe(code))
	}
	*to = e.lib.handle(handle)
	if code := e.lib.setErrhandler.call(*to, e.lib.errorsReturn); code != 0 {
		return fmt.Errorf("MPI_Comm_set_errhandler: %s", e.lib.describe(code))
	}
	return nil
}

// askTags queries the largest tag: libraries differ, and the standard guarantees only 15 bits.
func (e *Engine) askTags() error {
	var value *int32
	var found int32
	code := e.lib.getAttr.call(e.messages, uintptr(e.lib.tagUB), uintptr(unsafe.Pointer(&value)),
		uintptr(unsafe.Pointer(&found)))
	if code != 0 || found == 0 {
		return fmt.Errorf("MPI_TAG_UB: the library does not say")
	}
	e.tags = 1
	for e.tags <= uint32(*value)/2 && e.tags < 1<<30 {
		e.tags *= 2
	}
	return nil
}

// handle reads a handle of the library's size.
func (l *library) handle(b []byte) uintptr {
	if l.handleBytes == 4 {
		return uintptr(*(*uint32)(unsafe.Pointer(&b[0])))
	}
	return *(*uintptr)(unsafe.Pointer(&b[0]))
}

// Rank returns this process's rank in the job.
func (e *Engine) Rank() int { return e.rank }

// Size returns the number of processes.
func (e *Engine) Size() int { return e.size }

// Version returns the library's version text.
func (e *Engine) Version() string { return e.lib.version }

// noteSlots is the number of receives posted for notes at a time.
const noteSlots = 16

// Listen begins to receive notes.
func (e *Engine) Listen(f func(from int, note []byte, err error)) {
	e.listen = f
	e.turn <- struct{}{}
	for range noteSlots {
		r := &request{engine: e, comm: e.notes, peer: e.lib.anySource, data: make([]byte, comm.NoteBytes),
			note: true}
		e.ring = append(e.ring, r)
		e.begin(r)
	}
	e.giveBack()
	e.stopped.Go(e.background)
}

// Post sends a note.
func (e *Engine) Post(to int, note []byte) {
	e.enqueue([]request{{
		engine: e, comm: e.notes, peer: to, send: true, data: append([]byte(nil), note...), note: true,
	}})
}

// Start sends and receives messages, those of more than 1 GiB in pieces: MPI counts in 32 bits.
func (e *Engine) Start(messages []comm.Message) comm.Transfer {
	t := &transfer{done: make(chan struct{})}
	var list []request
	for _, m := range messages {
		for at := 0; at == 0 || at < len(m.Data); at += pieceBytes {
			list = append(list, request{
				engine: e, comm: e.messages, peer: m.Peer, tag: m.Number % e.tags, send: m.Send,
				data: m.Data[at:min(len(m.Data), at+pieceBytes)], transfer: t,
			})
		}
	}
	t.left.Store(int64(len(list)))
	e.enqueue(list)
	return t
}

// pieceBytes is the most bytes that one MPI call sends.
var pieceBytes = 1 << 30

// enqueue queues requests and starts them, unless another goroutine holds the turn, which then starts them.
func (e *Engine) enqueue(list []request) {
	e.mu.Lock()
	e.queue = append(e.queue, list...)
	e.queued.Store(true)
	e.mu.Unlock()
	e.issueNow()
}

// issueNow starts what is queued unless another goroutine holds the turn: that one does so on release.
func (e *Engine) issueNow() {
	for e.queued.Load() {
		select {
		case e.turn <- struct{}{}:
			e.issue()
			<-e.turn
		default:
			return
		}
	}
}

// giveBack releases the turn and starts what was queued meanwhile: a process may end right after it has
// posted a note, and then no goroutine would drive.
func (e *Engine) giveBack() {
	<-e.turn
	e.issueNow()
}

// transfer is a set of messages in flight.
type transfer struct {
	left atomic.Int64
	mu   sync.Mutex
	err  error
	done chan struct{}
}

// Done is closed when all messages are complete.
func (t *transfer) Done() <-chan struct{} { return t.done }

// Err returns the first error.
func (t *transfer) Err() error { return t.err }

func (t *transfer) over(err error) {
	if err != nil {
		t.mu.Lock()
		if t.err == nil {
			t.err = err
		}
		t.mu.Unlock()
	}
	if t.left.Add(-1) == 0 {
		close(t.done)
	}
}
