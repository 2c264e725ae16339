package job

import (
	"errors"
	"fmt"
	"os"
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

// Job is the processes that train together, as one of them sees it. The devices of a strategy are assigned to
// them evenly, and all of them run the same program. A nil Job is a process by itself.
type Job struct {
	p *process.Process
	// hosts is where the processes run.
	hosts []string
	// launcher and library are who started them, and what connects them.
	launcher, library string
	// t connects them.
	t comm.Transport
}

// streams of exchanges: what the program agrees on, and checkpoints in the background.
const (
	programStream process.Stream = iota
	checkpointStream
)

// Join joins the job for which mpirun, srun, galley launch or the like have started this process, or that of
// the transport which GALLEY_TRANSPORT names. It is nil where the process was started by itself, or is the
// only one.
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

// patienceVariable says how long a process may be silent that others wait for, where 8 s are too short.
const patienceVariable = "GALLEY_PATIENCE"

// Over returns the job that a transport connects, whatever launcher and library are called.
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

// Rank returns this process's place among Size; 0 of a nil Job.
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

// First reports whether this is the process that prints and writes what one has to.
func (j *Job) First() bool { return j.Rank() == 0 }

// Launcher returns who started the processes, Library what connects them.
func (j *Job) Launcher() string { return j.launcher }

// Library returns what connects the processes.
func (j *Job) Library() string { return j.library }

// Hosts returns where the processes run, by their numbers.
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

// Neighbours returns how many processes of the job run on this host, this one included.
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

// Devices returns n devices: of this process, where they meet in its memory, or assigned to the processes of
// a job. It is the one place that chooses the transport.
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
		owner[i] = i * size / n
	}
	return j.p.NewWorld(owner)
}

// AllReduceF32 sums float32s by the library's own call, for measurements. Nothing else may be
// under way.
func (j *Job) AllReduceF32(dst, src []byte) error {
	if e, ok := j.t.(interface{ AllReduceF32(dst, src []byte) error }); ok {
		return e.AllReduceF32(dst, src)
	}
	return fmt.Errorf("%s has no all-reduce of its own", j.library)
}

// NewWorld makes n devices for eager tensors, assigned to the processes; Close ends them.
func (j *Job) NewWorld(host *cpu.Device, n int) (*dtensor.World, error) {
	w, err := j.Devices(n)
	if err != nil {
		return nil, err
	}
	return runtime.NewSession(host, w), nil
}

// Lost reports whether an error says that a process of a job is no more: not what the program did wrong.
func Lost(err error) bool { return process.IsLost(err) }

// Name returns a process and its host: process 3 (node7).
func (j *Job) Name(process int) string {
	return fmt.Sprintf("process %d (%s)", process, j.hosts[process])
}

// named returns an error of another process with its host.
func (j *Job) named(err error) error {
	if left, ok := errors.AsType[*process.LeftError](err); ok {
		return fmt.Errorf("%s: %s", j.Name(left.Process), left.Text)
	}
	return err
}

// Peers returns the processes that write checkpoints together; nil for one.
func (j *Job) Peers() checkpoint.Peers {
	if j.Size() == 1 {
		return nil
	}
	return peers{j}
}

// peers is the processes of a job as they write checkpoints.
type peers struct{ *Job }

// Exchange gives every process what all give, besides what the program exchanges: checkpoints are written in
// the background.
func (p peers) Exchange(data []byte) ([][]byte, error) {
	all, err := p.p.Exchange(checkpointStream, data)
	if err != nil {
		return nil, p.named(err)
	}
	return all, nil
}

// End leaves the job with the error that this process has come to, or none, and returns what the first
// process has to say: its own error, or else another's. tell is called with that in the first process, before
// the others end: launchers end all processes when one has ended with an error, so what is printed later may
// be lost. nil has nothing told.
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
	errs := j.p.Leave(err)
	own := err
	if _, echo := errors.AsType[*process.LeftError](err); echo {
		own = nil
	}
	for q, e := range errs {
		if own == nil && e != nil {
			own = j.named(e)
			if _, left := errors.AsType[*process.LeftError](e); !left {
				own = fmt.Errorf("%s: %w", j.Name(q), e)
			}
		}
	}
	if own != nil {
		j.p.Tell(func() { tell(own) })
		return own
	}
	if err = j.p.Close(); err != nil && j.First() {
		tell(err)
	}
	return err
}
