package galley

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	goruntime "runtime"
	"runtime/debug"
	"strings"

	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/process"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/mpi"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/internal/transport"
)

// Job is the processes that train together, as one of them sees it. The devices of a strategy are dealt to
// them evenly, and all of them run the same program. A nil Job is a process by itself.
type Job struct {
	p *process.Process
	// hosts is where the processes run.
	hosts []string
	// launcher and library are who started them, and what connects them.
	launcher, library string
}

// streams of exchanges: what the program agrees on, and checkpoints in the background.
const (
	programStream process.Stream = iota
	checkpointStream
)

// Join joins the job for which mpirun, srun, galley launch or the like have started this process. It is nil
// where the process was started by itself, or is the only one.
func Join() (*Job, error) {
	launched, ok := mpi.Launched()
	if !ok || launched.Size == 1 {
		return nil, nil
	}
	e, err := mpi.Open(launched)
	if err != nil {
		return nil, err
	}
	return newJob(e, launched.String(), e.Version())
}

// newJob is the job that a transport connects.
func newJob(t comm.Transport, launcher, library string) (*Job, error) {
	j := &Job{p: process.Join(t), launcher: launcher, library: library}
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

// Rank is this process's place among Size; 0 of a nil Job.
func (j *Job) Rank() int {
	if j == nil {
		return 0
	}
	return j.p.Rank()
}

// Size is the number of processes.
func (j *Job) Size() int {
	if j == nil {
		return 1
	}
	return j.p.Size()
}

// First reports whether this is the process that prints and writes what one has to.
func (j *Job) First() bool { return j.Rank() == 0 }

// Launcher is who started the processes, Library what connects them.
func (j *Job) Launcher() string { return j.launcher }

// Library is what connects the processes.
func (j *Job) Library() string { return j.library }

// Neighbours is how many processes of the job run on this host, this one included.
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

// Threads is how many threads each process has if those of a host share its cores. A launcher that binds
// processes to cores of their own has shared them already.
func (j *Job) Threads() int {
	if n := goruntime.NumCPU(); n < machineCores() {
		return n
	}
	return max(1, goruntime.NumCPU()/j.Neighbours())
}

// Bound is how many cores of how many the launcher lets this process use; false if all.
func (j *Job) Bound() (cores, of int, bound bool) {
	n, all := goruntime.NumCPU(), machineCores()
	return n, all, n < all
}

// machineCores is how many cores the machine has, whichever of them the process may use.
func machineCores() int {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return goruntime.NumCPU()
	}
	n := 0
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		var lo, hi int
		switch k, _ := fmt.Sscanf(part, "%d-%d", &lo, &hi); k {
		case 1:
			n++
		case 2:
			n += hi - lo + 1
		}
	}
	return max(n, 1)
}

// newWorld is n devices: of this process, where they meet in its memory, or dealt to the processes of a job.
// It is the one place that chooses the transport.
func (j *Job) newWorld(n int) (comm.World, error) {
	if j == nil {
		return transport.New(n)
	}
	size := j.Size()
	if n%size != 0 {
		return nil, fmt.Errorf("%d devices for %d processes: want as many for each: a multiple of %d", n, size, size)
	}
	owner := make([]int, n)
	for i := range owner {
		owner[i] = i * size / n
	}
	return j.p.NewWorld(owner)
}

// NewWorld makes n devices for eager tensors, dealt to the processes; Close ends them.
func (j *Job) NewWorld(host *Device, n int) (*dtensor.World, error) {
	w, err := j.newWorld(n)
	if err != nil {
		return nil, err
	}
	return runtime.NewSession(host, w), nil
}

// check refuses what a job of several processes cannot run.
func (j *Job) check(c TrainerConfig) error {
	switch {
	case j.Size() == 1:
		return nil
	case c.Backend != nil:
		return fmt.Errorf("trainer: a job of %d processes: a backend's devices are of one process: want one", j.Size())
	case c.Strategy == nil:
		return fmt.Errorf("trainer: a job of %d processes: want a strategy for %[1]d devices, or a multiple", j.Size())
	}
	s, err := c.Strategy.WithDefaults()
	if err != nil {
		return err
	}
	if n := s.Devices(); n%j.Size() != 0 {
		return fmt.Errorf("trainer: strategy %q has %d devices for %d processes: want as many for each", c.Strategy, n,
			j.Size())
	}
	return nil
}

// Same is an error if a fact differs between processes: it says which, and where.
func (j *Job) Same(facts []Fact) error {
	if j.Size() == 1 {
		return nil
	}
	text, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	all, err := j.p.Exchange(programStream, text)
	if err != nil {
		return j.named(err)
	}
	var first []Fact
	for q, text := range all {
		var other []Fact
		if err := json.Unmarshal(text, &other); err != nil {
			return fmt.Errorf("%s: its facts cannot be read: %w", j.Name(q), err)
		}
		if q == 0 {
			first = other
		}
		if err := j.compare(q, other, first); err != nil {
			return err
		}
	}
	return nil
}

// compare says in what a process differs from the first.
func (j *Job) compare(q int, facts, first []Fact) error {
	for i := range max(len(facts), len(first)) {
		switch {
		case i >= len(facts) || i >= len(first) || facts[i].Name != first[i].Name:
			return fmt.Errorf("%s: it is another program than %s's", j.Name(q), j.Name(0))
		case facts[i].Value != first[i].Value:
			return fmt.Errorf("%s: %s is %s, and %s on %s: want the same on all", j.Name(q), facts[i].Name,
				facts[i].Value, first[i].Value, j.Name(0))
		}
	}
	return nil
}

// programFacts is what has to be the same in all processes for their numbers to be.
func (t *Trainer) programFacts() []Fact {
	params := crc32.NewIEEE()
	for _, p := range t.c.Params {
		fmt.Fprintln(params, p.Name, p.Type, p.Fixed)
	}
	return append([]Fact{
		{Name: "version", Value: version()}, {Name: "binary", Value: fileHash()},
		{Name: "byte order", Value: binaryOrder()}, {Name: "kernels", Value: strings.Join(kernel.Features(), " ")},
		{Name: "strategy", Value: fmt.Sprint(t.c.Strategy)}, {Name: "mode", Value: fmt.Sprint(t.c.Mode)},
		{Name: "compute", Value: fmt.Sprint(t.c.Compute)},
		{Name: "model", Value: fmt.Sprintf("of %d parameters (hash %08x)", len(t.c.Params), params.Sum32())},
	}, t.facts()...)
}

// binaryOrder is how the host's numbers lie in memory.
func binaryOrder() string {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return "little"
	}
	return "big"
}

// version is that of the module, or of the program that uses it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Path + " " + info.Main.Version
	}
	return "unknown"
}

// fileHash is a checksum of the program's file.
func fileHash() string {
	path, err := os.Executable()
	if err != nil {
		return "unknown"
	}
	f, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	h := crc32.NewIEEE()
	if _, err := io.Copy(h, f); err != nil {
		return "unknown"
	}
	return fmt.Sprintf("hash %08x", h.Sum32())
}

// Name is a process and its host: process 3 (node7).
func (j *Job) Name(process int) string {
	return fmt.Sprintf("process %d (%s)", process, j.hosts[process])
}

// named is an error of another process with its host.
func (j *Job) named(err error) error {
	if left, ok := errors.AsType[*process.LeftError](err); ok {
		return fmt.Errorf("%s: %s", j.Name(left.Process), left.Text)
	}
	return err
}

// Max is the largest of the numbers that the processes give, below 256: how they agree on something.
func (j *Job) Max(n int) (int, error) {
	if j.Size() == 1 {
		return n, nil
	}
	all, err := j.p.Exchange(programStream, []byte{byte(n)})
	if err != nil {
		return 0, j.named(err)
	}
	for _, other := range all {
		if len(other) == 1 {
			n = max(n, int(other[0]))
		}
	}
	return n, nil
}

// Tell gives all processes the first one's text.
func (j *Job) Tell(text string) (string, error) {
	if j.Size() == 1 {
		return text, nil
	}
	all, err := j.p.Exchange(programStream, []byte(text))
	if err != nil {
		return "", j.named(err)
	}
	return string(all[0]), nil
}

// peers is the processes that write checkpoints together; nil for one.
func (j *Job) peers() checkpoint.Peers {
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
// process has to say: its own error, or else another's. The others' errors are nil there.
func (j *Job) End(err error) error {
	if j == nil {
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
		return own
	}
	return j.p.Close()
}
