//go:build linux || darwin

package launch

import (
	"fmt"
	"syscall"
)

// Group is processes under way whose end somebody else decides on.
type Group struct{ j *job }

// End is how a process of a group ended.
type End struct {
	// Rank is among all processes. Code is its exit code, 128 and the signal where one has killed it, which Text
	// tells.
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

// Next waits for a process to end, or to abort the job; ok is false once the channel is closed.
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

// end returns how a process ended, in words.
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

// Kill ends all processes.
func (g *Group) Kill() { g.j.kill() }

// Signal sends a signal to all processes.
func (g *Group) Signal(s syscall.Signal) { g.j.signal(s) }

// Drain waits for so many processes to end.
func (g *Group) Drain(n int) { g.j.drain(n) }

// Pid returns the number of a process of this host by its place.
func (g *Group) Pid(i int) int { return g.j.cmds[i].Process.Pid }
