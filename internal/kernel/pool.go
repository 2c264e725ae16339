package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// spinTime is how long an idle worker, or a caller waiting for its last tasks,
// polls before it parks: long enough to bridge the gap between the phases of
// one operation, short enough to leave an idle processor to others.
const spinTime = 15 * time.Microsecond

// Pool is a set of worker goroutines shared by all the operations of a
// program. The nil Pool is valid and runs everything on the calling goroutine.
type Pool struct {
	threads int
	work    chan *poolJob
	jobs    sync.Pool
	closed  atomic.Bool
}

// NewPool returns a pool of the given number of threads, the calling goroutine
// included; threads <= 0 means GOMAXPROCS.
func NewPool(threads int) *Pool {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	p := &Pool{threads: threads, work: make(chan *poolJob, threads)}
	p.jobs.New = func() any { return &poolJob{done: make(chan struct{}, 1)} }
	for range threads - 1 {
		go p.worker()
	}
	return p
}

// Threads returns how many goroutines can work at once, the caller included.
func (p *Pool) Threads() int {
	if p == nil || p.closed.Load() {
		return 1
	}
	return p.threads
}

// Close ends the workers. No Run may be in progress; later ones run on their
// calling goroutine.
func (p *Pool) Close() {
	if p != nil && p.closed.CompareAndSwap(false, true) {
		close(p.work)
	}
}

// Run calls f(0), ..., f(tasks-1), each once, and returns when all are done.
// The tasks run in no particular order on up to Threads goroutines, the caller
// among them, so a call from within a task cannot deadlock. A panic in a task
// is raised again on the caller after the other running tasks have finished.
func (p *Pool) Run(tasks int, f func(task int)) {
	if tasks <= 1 || p.Threads() == 1 {
		for t := range tasks {
			f(t)
		}
		return
	}
	j := p.jobs.Get().(*poolJob)
	j.task = f
	p.run(j, tasks)
}

// For splits [0, n) into chunks of grain elements, the last one maybe shorter,
// and calls f for each. The chunks depend on n and grain only, so that sums
// over a chunk do not change with the number of threads; grain <= 0 means one
// chunk.
func (p *Pool) For(n, grain int, f func(lo, hi int)) {
	if n <= 0 {
		return
	}
	if grain <= 0 || grain > n {
		grain = n
	}
	chunks := (n + grain - 1) / grain
	if chunks == 1 || p.Threads() == 1 {
		for lo := 0; lo < n; lo += grain {
			f(lo, min(n, lo+grain))
		}
		return
	}
	j := p.jobs.Get().(*poolJob)
	j.chunk, j.n, j.grain = f, n, grain
	p.run(j, chunks)
}

// run offers j to the workers, takes part in it and waits for its end. A full
// channel means that every worker has enough to do already.
func (p *Pool) run(j *poolJob, tasks int) {
	helpers := min(p.threads, tasks) - 1
	j.start(tasks, helpers)
	for sent := range helpers {
		select {
		case p.work <- j:
			continue
		default:
		}
		j.refs.Add(int32(sent - helpers))
		break
	}
	j.claim()
	j.wait()
	failure := j.failure.Swap(nil)
	p.release(j)
	if failure != nil {
		panic(failure.value)
	}
}

// release gives up one reference to j. The last one recycles it: a worker may
// take j from the channel long after its tasks are done.
func (p *Pool) release(j *poolJob) {
	if j.refs.Add(-1) == 0 {
		j.task, j.chunk = nil, nil
		p.jobs.Put(j)
	}
}

func (p *Pool) worker() {
	for {
		p.spin()
		j, ok := <-p.work
		if !ok {
			return
		}
		j.claim()
		p.release(j)
	}
}

// spin polls for work and returns when there is some or spinTime has passed.
func (p *Pool) spin() {
	for start := time.Now(); time.Since(start) < spinTime; {
		for range 64 {
			if len(p.work) > 0 {
				return
			}
		}
		runtime.Gosched()
	}
}
