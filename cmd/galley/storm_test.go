//go:build storm

package main

import (
	"bufio"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// storm is what happens to three hosts at random.
type storm struct {
	*testHosts
	random *rand.Rand
	down   map[string]bool
	hosts  []string
}

// env returns a number of the environment, or one by default.
func env(name string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// stormTrain is a run without an end.
const stormTrain = "--mesh dp=4 --steps 1000000"

// TestStorm: processes, agents and etcd's servers of three hosts are killed, stopped, asked to leave and
// started again at random, links are cut and mended, memory is full; at the end every step was told, and to
// the bit what one process tells. GALLEY_STORM is how many seconds it lasts, GALLEY_STORM_SEED the seed.
// Hosts are namespaces where that is allowed (root and iproute2), else processes of this machine that share
// its links.
func TestStorm(t *testing.T) {
	seconds, seed := env("GALLEY_STORM", 300), env("GALLEY_STORM_SEED", time.Now().UnixNano())
	t.Logf("GALLEY_STORM=%d GALLEY_STORM_SEED=%d", seconds, seed)
	s := &storm{testHosts: newHosts(t, "--elastic 1:3 --lease 2s", stormTrain, "a", "b", "c"),
		random: rand.New(rand.NewPCG(uint64(seed), 0)), down: map[string]bool{}, hosts: []string{"a", "b", "c"}}
	if s.network = newNetwork(t, s.hosts...); s.network != nil {
		s.etcd = s.network.etcd()
	}
	for _, h := range s.hosts {
		s.start(h)
	}
	s.goesOn(3, time.Minute)
	for began := time.Now(); time.Since(began) < time.Duration(seconds)*time.Second; {
		s.happen()
		s.mend()
		s.goesOn(3, 90*time.Second)
		time.Sleep(time.Duration(s.random.IntN(1000)) * time.Millisecond)
	}
	s.check()
}

// things are those that happen to a host, most often first.
var things = []string{"kill a worker", "stop a worker", "kill the agent", "stop the agent", "SIGTERM",
	"kill etcd",
	"stop agent and workers", "drain", "cut the link", "cut the link for a moment", "fill the memory"}

// happen is one thing that happens.
func (s *storm) happen() {
	host := s.hosts[s.random.IntN(len(s.hosts))]
	agent := s.agents[host]
	list := s.workers(host, false)
	n := len(things)
	if s.network == nil {
		n -= 3
	}
	what := things[s.random.IntN(n)]
	s.t.Logf("step %d: %s: %s", s.step(), host, what)
	switch what {
	case "kill a worker":
		s.killOne(list)
	case "stop a worker":
		s.halt(list)
	case "kill the agent":
		_ = agent.Process.Kill()
		<-s.ends[host]
		s.down[host] = true
	case "stop the agent":
		s.halt([]int{agent.Process.Pid})
	case "SIGTERM":
		_ = agent.Process.Signal(syscall.SIGTERM)
		<-s.ends[host]
		s.down[host] = true
	case "kill etcd":
		for _, pid := range s.workers(host, true) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	case "stop agent and workers":
		s.halt(append(list, agent.Process.Pid))
	case "drain":
		s.drain(host)
	case "cut the link":
		s.network.link(host, false)
		s.pause(8000)
		s.network.link(host, true)
	case "cut the link for a moment":
		s.network.link(host, false)
		s.pause(800)
		s.network.link(host, true)
	case "fill the memory": // and begin an epoch then
		empty := s.network.fill(host)
		s.killOne(list)
		s.pause(3000)
		empty()
	}
}

// killOne kills one of a host's workers.
func (s *storm) killOne(list []int) {
	if len(list) > 0 {
		_ = syscall.Kill(list[s.random.IntN(len(list))], syscall.SIGKILL)
	}
}

// drain has a host leave, if its agent can be asked.
func (s *storm) drain(host string) {
	memory := "/dev/shm"
	if s.network != nil {
		memory = s.network.memory(host)
	}
	cmd := galleyCommand(s.t, "drain", host, "--job", s.name, "--memory", memory)
	s.network.within(cmd, host)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Logf("drain: %v: %s", err, strings.TrimSpace(string(out))) // etcd has just lost its leader, say
		return
	}
	<-s.ends[host]
	s.down[host] = true
}

// pause waits a while, at most so many milliseconds.
func (s *storm) pause(most int) {
	time.Sleep(time.Duration(100+s.random.IntN(most)) * time.Millisecond)
}

// halt stops processes for a while: some are zombies of an old epoch when they continue.
func (s *storm) halt(pids []int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	s.pause(5000)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// mend starts hosts that are down: two of three have to be there for etcd.
func (s *storm) mend() {
	for host := range s.down {
		time.Sleep(time.Duration(s.random.IntN(3000)) * time.Millisecond)
		s.start(host)
		delete(s.down, host)
	}
}

// check holds the history against that of one process: every step once, or again with the same numbers.
func (s *storm) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for step := range s.h {
		n = max(n, step)
	}
	if len(s.h) != n {
		s.t.Errorf("%d steps were told, of %d", len(s.h), n)
	}
	want := plainUntil(s.t, stormTrain, n)
	for step := 1; step <= n; step++ {
		if s.h[step] != want[step] {
			s.t.Errorf("step %d: got %q, want %q", step, s.h[step], want[step])
		}
	}
	s.t.Logf("%d steps", n)
}

// plainUntil returns the history of the first steps of a run in one process.
func plainUntil(t *testing.T, train string, steps int) history {
	cmd := galleyCommand(t, append(strings.Fields("train "+train), tinyRun...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := history{}
	for s := bufio.NewScanner(out); s.Scan() && h.take(t, s.Text()) < steps; {
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return h
}
