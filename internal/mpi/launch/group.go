//go:build linux || darwin

package launch

import (
	"fmt"
	"syscall"
)

// Group is a set of running processes; the caller decides when they end.
type Group struct{ j *job }

// End is how a process of a group ended.
type End struct {
	// Rank is the rank among all processes. Code is its exit code, or 128 plus the signal that killed it; Text
	// then names the signal.
	Rank, Code int
	Text       string
	Killed     bool
}

// Start starts the processes of this host.
func Start(c Config) (*Group, error) {
	j := newJob(c)
	for rank := range c.N {
		if err := j.start(rank); err != nil {
			j.kill()
			j.drain(rank)
			return nil, err
		}
	}
	return &Group{j}, nil
}

// Next waits for a process to end or to abort the job; ok is false if until is closed first.
func (g *Group) Next(until <-chan struct{}) (e End, ok bool) {
	select {
	case x := <-g.j.ended:
		return g.end(x), true
	case text := <-g.j.aborted:
		return End{Rank: -1, Code: 1, Text: text}, true
	case <-until:
		return End{}, false
	}
}

// end converts how a process ended to an End with text.
func (g *Group) end(x end) End {
	e := End{Rank: g.j.First + x.rank}
	if x.err == nil {
		return e
	}
	code, err := g.j.failure(x)
	e.Code, e.Text = code, fmt.Sprintf("exit code %d", code)
	if err != nil {
		e.Text, e.Killed = "killed", true
		if s := syscall.Signal(code - 128); code > 128 {
			e.Text = fmt.Sprintf("killed by signal %d (%v)", code-128, s)
		}
	}
	return e
}

// Kill kills all processes.
func (g *Group) Kill() { g.j.kill() }

// Signal sends a signal to all processes.
func (g *Group) Signal(s syscall.Signal) { g.j.signal(s) }

// Drain waits for n processes to end.
func (g *Group) Drain(n int) { g.j.drain(n) }

// Pid returns the process id of the i-th process of this host.
func (g *Group) Pid(i int) int { return g.j.cmds[i].Process.Pid }
