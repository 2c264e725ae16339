package kernel

import (
	"runtime"
	"sync/atomic"
	"time"
)

// The states of a poolJob, from the view of the goroutine that waits for it.
const (
	jobRunning int32 = iota
	jobParked
	jobFinished
)

// poolJob is one call of Run or For. Workers claim its tasks by a counter.
type poolJob struct {
	task     func(task int)
	chunk    func(lo, hi int)
	n, grain int

	tasks   int64
	next    atomic.Int64
	pending atomic.Int64
	state   atomic.Int32
	refs    atomic.Int32
	failure atomic.Pointer[taskPanic]
	done    chan struct{}
}

// taskPanic is the first panic raised by a task of a job.
type taskPanic struct{ value any }

func (j *poolJob) start(tasks, helpers int) {
	j.tasks = int64(tasks)
	j.next.Store(0)
	j.pending.Store(int64(tasks))
	j.state.Store(jobRunning)
	j.refs.Store(int32(helpers) + 1)
}

// claim runs tasks until none is left to claim.
func (j *poolJob) claim() {
	for {
		t := j.next.Add(1) - 1
		if t >= j.tasks {
			return
		}
		j.runTask(int(t))
	}
}

// runTask runs one task. Once a task has panicked the others are skipped, but
// still counted, which is what ends the job.
func (j *poolJob) runTask(t int) {
	defer j.finish()
	if j.failure.Load() != nil {
		return
	}
	if j.chunk != nil {
		j.chunk(t*j.grain, min(j.n, (t+1)*j.grain))
		return
	}
	j.task(t)
}

// finish counts a task as done, keeps its panic, and wakes a parked caller
// after the last task.
func (j *poolJob) finish() {
	if r := recover(); r != nil {
		j.failure.CompareAndSwap(nil, &taskPanic{r})
	}
	if j.pending.Add(-1) == 0 && j.state.Swap(jobFinished) == jobParked {
		j.done <- struct{}{}
	}
}

// wait returns when every task of the job is done.
func (j *poolJob) wait() {
	if j.state.Load() == jobFinished {
		return
	}
	for start := time.Now(); time.Since(start) < spinTime; {
		for range 64 {
			if j.state.Load() == jobFinished {
				return
			}
		}
		runtime.Gosched()
	}
	if j.state.CompareAndSwap(jobRunning, jobParked) {
		<-j.done
	}
}
