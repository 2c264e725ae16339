//go:build linux || darwin

package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/galley-ml/galley/internal/mpi"
)

// Config describes the processes to start.
type Config struct {
	// N is the number of processes, Args the program and its arguments.
	N    int
	Args []string
	// Stdout and Stderr receive the processes' output.
	Stdout, Stderr io.Writer

	// Size, if set, is the number of processes on all hosts: those of this host have the ranks from First on.
	// Mapping is their placement in PMI's format. Fence exchanges the keys that processes put before a barrier
	// with the other hosts.
	First, Size int
	Mapping     string
	Fence       func(put map[string]string) (all map[string]string, err error)
	// Extra, if set, returns more environment variables of a process, and files for descriptors 4 and up.
	Extra func(rank int) (env []string, files []*os.File)
}

// grace is how long the other processes may run after one has failed: longer than they wait for each other to
// leave.
const grace = 7 * time.Second

// job is a set of running processes.
type job struct {
	Config
	server  *server
	cmds    []*exec.Cmd
	ended   chan end
	aborted chan string
}

// end is how a process ended.
type end struct {
	rank int
	err  error
}

// newJob prepares a job without starting it.
func newJob(c Config) *job {
	if c.Size == 0 {
		c.Size, c.Mapping = c.N, oneHost(c.N)
	}
	j := &job{Config: c, ended: make(chan end, c.N), aborted: make(chan string, c.N)}
	j.server = &server{n: c.N, size: c.Size, mapping: c.Mapping, fence: c.Fence, values: map[string]string{},
		aborted: func(m string) {
			select {
			case j.aborted <- m:
			default:
			}
		}}
	return j
}

// Run starts the processes and waits until all have ended. It returns the exit code of the first that failed,
// and an error if that process could not report its failure itself.
func Run(c Config) (code int, err error) {
	j := newJob(c)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	for rank := range c.N {
		if err := j.start(rank); err != nil {
			j.kill()
			j.drain(rank)
			return 1, err
		}
	}
	return j.wait(signals)
}

// start starts one process, in a process group of its own: signals of the terminal reach only the launcher,
// which forwards them once. The process is killed when the launcher dies.
func (j *job) start(rank int) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	cmd := exec.Command(j.Args[0], j.Args[1:]...)
	cmd.Stdout, cmd.Stderr = j.Stdout, j.Stderr
	cmd.ExtraFiles = []*os.File{theirs} // descriptor 3
	cmd.Env = append(os.Environ(), "PMI_FD=3", "PMI_RANK="+strconv.Itoa(j.First+rank),
		"PMI_SIZE="+strconv.Itoa(j.Size), mpi.LaunchVariable+"=1")
	if j.Extra != nil {
		env, files := j.Extra(j.First + rank)
		cmd.Env, cmd.ExtraFiles = append(cmd.Env, env...), append(cmd.ExtraFiles, files...)
	}
	cmd.SysProcAttr = attributes()
	if err := cmd.Start(); err != nil {
		ours.Close()
		return fmt.Errorf("process %d: %w", rank, err)
	}
	j.cmds = append(j.cmds, cmd)
	go func() {
		_ = j.server.serve(ours) // a process that closes its connection is noticed when it ends
	}()
	go func() {
		j.ended <- end{rank, cmd.Wait()}
		ours.Close()
	}()
	return nil
}

// socketPair returns the two ends of a connection.
func socketPair() (ours, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	return os.NewFile(uintptr(fds[0]), "pmi"), os.NewFile(uintptr(fds[1]), "pmi"), nil
}

// wait returns when all processes have ended.
func (j *job) wait(signals <-chan os.Signal) (code int, err error) {
	var timer <-chan time.Time
	for left := j.N; left > 0; {
		select {
		case e := <-j.ended:
			left--
			if e.err == nil || code != 0 {
				continue
			}
			if code, err = j.failure(e); err != nil {
				j.kill()
			} else {
				j.signal(syscall.SIGCONT) // a stopped process cannot handle the signal before
				timer = time.After(grace)
			}
		case m := <-j.aborted:
			if code == 0 {
				code, err = 1, fmt.Errorf("a process has aborted the job: %s", m)
			}
			j.kill()
		case <-timer:
			j.kill()
		case s := <-signals:
			j.signal(s.(syscall.Signal))
		}
	}
	return code, err
}

// failure returns the exit code of a process that failed, and an error if it was killed, which it could not
// report itself.
func (j *job) failure(e end) (int, error) {
	exit, ok := errors.AsType[*exec.ExitError](e.err)
	if !ok {
		return 1, fmt.Errorf("process %d: %w", e.rank, e.err)
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		s := status.Signal()
		return 128 + int(s), fmt.Errorf("process %d of %d: it was killed: %v", e.rank, j.N, s)
	}
	return exit.ExitCode(), nil
}

// signal forwards a signal to all processes.
func (j *job) signal(s syscall.Signal) {
	for _, cmd := range j.cmds {
		_ = cmd.Process.Signal(s) // fails harmlessly for a process that has ended
	}
}

// kill kills all processes and their children.
func (j *job) kill() {
	for _, cmd := range j.cmds {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails harmlessly for a process that has ended
	}
}

// drain waits for n started processes to end.
func (j *job) drain(n int) {
	for range n {
		<-j.ended
	}
}
