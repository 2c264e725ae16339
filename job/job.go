package job

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/process"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/mpi"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/internal/transport"
)

// Job is a set of processes that train together, seen from one of them. The devices of a strategy are
// distributed evenly over them, and all run the same program. A nil Job is a single process.
type Job struct {
	p *process.Process
	// hosts has the host of each process.
	hosts []string
	// launcher started the processes, library connects them.
	launcher, library string
	// t carries bytes between them.
	t comm.Transport
	// told makes sure that a failure is told once.
	told sync.Once
}

// streams of exchanges: what the program agrees on, and checkpoints in the background.
const (
	programStream process.Stream = iota
	checkpointStream
)

// Join joins the job for which mpirun, srun or galley launch started this process, or that of the transport
// named by GALLEY_TRANSPORT. It returns nil if the process was started alone or is the only one.
func Join() (*Job, error) {
	if name := named(); name != "" {
		return joinNamed(name)
	}
	launched, ok := mpi.Launched()
	if !ok || launched.Size == 1 {
		return nil, nil
	}
	e, err := mpi.Open(launched)
	if err != nil {
		return nil, err
	}
	return Over(e, launched.String(), e.Version())
}

// patienceVariable sets how long a process that others wait for may be silent before it counts as lost, if 8
// s is too short.
const patienceVariable = "GALLEY_PATIENCE"

// Over returns the job that a transport connects; launcher and library are names for people.
func Over(t Transport, launcher, library string) (*Job, error) {
	j := &Job{p: process.Join(t), launcher: launcher, library: library, t: t}
	if text := os.Getenv(patienceVariable); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("%s=%s: want a time above 0, like 60s", patienceVariable, text)
		}
		j.p.SetPatience(d)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	hosts, err := j.p.Exchange(programStream, []byte(host))
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		j.hosts = append(j.hosts, string(h))
	}
	return j, nil
}

// Rank returns this process's index among Size; 0 for a nil Job.
func (j *Job) Rank() int {
	if j == nil {
		return 0
	}
	return j.p.Rank()
}

// Size returns the number of processes.
func (j *Job) Size() int {
	if j == nil {
		return 1
	}
	return j.p.Size()
}

// First reports whether this is process 0, which prints and writes on behalf of all.
func (j *Job) First() bool { return j.Rank() == 0 }

// Launcher returns the name of what started the processes.
func (j *Job) Launcher() string { return j.launcher }

// Library returns the name of the library that connects the processes.
func (j *Job) Library() string { return j.library }

// Hosts returns the host of each process.
func (j *Job) Hosts() []string {
	if j == nil {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		return []string{host}
	}
	return j.hosts
}

// Neighbours returns the number of the job's processes on this host, including this one.
func (j *Job) Neighbours() int {
	if j == nil {
		return 1
	}
	n := 0
	for _, h := range j.hosts {
		if h == j.hosts[j.Rank()] {
			n++
		}
	}
	return n
}

// Devices returns a world of n devices, in this process's memory or distributed over the processes of a job.
// It is the one place that chooses the transport.
func (j *Job) Devices(n int) (comm.World, error) {
	if j == nil {
		return transport.New(n)
	}
	size := j.Size()
	if n%size != 0 {
		return nil, fmt.Errorf(
			"%d devices for %d processes: want as many for each: a multiple of %d",
			n,
			size,
			size,
		)
	}
	owner := make([]int, n)
	for i := range owner {
		owner[i] = j.owner(i, n)
	}
	return j.p.NewWorld(owner)
}

// owner returns the process of a device, of so many.
func (j *Job) owner(device, of int) int { return device * j.Size() / of }

// Owns reports whether a device, of so many in all processes, is of this process.
func (j *Job) Owns(device, of int) bool { return j.owner(device, of) == j.Rank() }

// AllReduceF32 sums float32s with the library's own all-reduce, for measurements. No other exchange may be in
// progress.
func (j *Job) AllReduceF32(dst, src []byte) error {
	if e, ok := j.t.(interface{ AllReduceF32(dst, src []byte) error }); ok {
		return e.AllReduceF32(dst, src)
	}
	return fmt.Errorf("%s has no all-reduce of its own", j.library)
}

// OwnAllReduce reports whether the library has an all-reduce of its own.
func (j *Job) OwnAllReduce() bool {
	if j == nil {
		return false
	}
	_, ok := j.t.(interface{ AllReduceF32(dst, src []byte) error })
	return ok
}

// NewWorld creates n devices for eager tensors, distributed over the processes; Close releases them.
func (j *Job) NewWorld(host *cpu.Device, n int) (*dtensor.World, error) {
	w, err := j.Devices(n)
	if err != nil {
		return nil, err
	}
	return runtime.NewSession(host, w), nil
}

// Lost reports whether an error means that a process of the job has died, as opposed to a mistake of the
// program.
func Lost(err error) bool { return process.IsLost(err) }

// Name returns a process with its host, for example "process 3 (node7)".
func (j *Job) Name(process int) string {
	return fmt.Sprintf("process %d (%s)", process, j.hosts[process])
}

// named returns an error of another process with its host.
func (j *Job) named(err error) error {
	if left, ok := errors.AsType[*process.LeftError](err); ok {
		return &namedError{fmt.Sprintf("%s: %s", j.Name(left.Process), left.Text), left}
	}
	return err
}

// namedError is an error of another process. A process that ends with it passes it on under that one's name.
type namedError struct {
	text string
	left *process.LeftError
}

func (e *namedError) Error() string { return e.text }

// Unwrap returns the error that the other process left with.
func (e *namedError) Unwrap() error { return e.left }

// Peers returns the processes that write checkpoints together; nil for a single process.
func (j *Job) Peers() checkpoint.Peers {
	if j.Size() == 1 {
		return nil
	}
	return peers{j}
}

// peers is the processes of a job as they write checkpoints.
type peers struct{ *Job }

// Exchange gathers data from all processes on a stream of its own, since checkpoints are written in the
// background.
func (p peers) Exchange(data []byte) ([][]byte, error) {
	all, err := p.p.Exchange(checkpointStream, data)
	if err != nil {
		return nil, p.named(err)
	}
	return all, nil
}

// OnFailure makes the first process call tell soon after another has left with an error, even while it is
// busy and will reach End much later: launchers kill all processes once one has exited, and the reason would
// be lost. End does not tell the same failure again.
func (j *Job) OnFailure(tell func(error)) {
	if j != nil {
		j.p.OnFailure(func(errs []error) { j.tell(j.cause(nil, errs), tell) })
	}
}

// tell makes the first process tell why the job fails, and the others wait until it has.
func (j *Job) tell(err error, tell func(error)) {
	j.p.Tell(func() {
		j.told.Do(func() { tell(err) })
	})
}

// cause returns why the job fails: this process's own error, or else another's; nil if it does not fail.
func (j *Job) cause(own error, errs []error) error {
	if _, echo := errors.AsType[*process.LeftError](own); own != nil && !echo {
		return own
	}
	for q, err := range errs {
		if _, left := errors.AsType[*process.LeftError](err); left {
			return j.named(err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", j.Name(q), err)
		}
	}
	return nil
}

// End leaves the job with the error of this process, or nil, and returns the error of the first process or,
// if it has none, another's. In the first process tell, if not nil, is called with that error before the
// other processes exit: launchers kill all processes as soon as one fails, so anything printed later may be
// lost.
func (j *Job) End(err error, tell func(error)) error {
	if tell == nil {
		tell = func(error) {}
	}
	if j == nil {
		if err != nil {
			tell(err)
		}
		return err
	}
	if cause := j.cause(err, j.p.Leave(err)); cause != nil {
		j.tell(cause, tell)
		return cause
	}
	if err = j.p.Close(); err != nil && j.First() {
		tell(err)
	}
	return err
}
