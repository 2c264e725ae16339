package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/elastic/etcd"
)

// long is far more than any machine needs: a wait that takes longer is a hang.
const long = 10 * time.Minute

// testHosts is several hosts of a job on this machine.
type testHosts struct {
	t           *testing.T
	name, flags string
	train       string
	etcd        string
	gate        string // a file: until it is there, steps are slow, so that no run ends before its events
	mu          sync.Mutex
	h           history
	last, again int // the last step that was told, and how many were told again
	agents      map[string]*exec.Cmd
	ends        map[string]chan error
	log         strings.Builder
	told        int // how many steps were told
	// network, where set, gives every host a namespace, a link and memory of its own.
	network *network
}

func newHosts(t *testing.T, flags, train string, servers ...string) *testHosts {
	t.Helper()
	needMPICH(t)
	c := &testHosts{t: t, flags: flags, train: train, h: history{}, agents: map[string]*exec.Cmd{},
		gate: filepath.Join(t.TempDir(), "gate"),
		ends: map[string]chan error{}, name: fmt.Sprintf("hosts%d-%d", os.Getpid(), time.Now().UnixNano()%1e6)}
	var list []string
	for _, s := range servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s@127.0.0.1:%d", s, l.Addr().(*net.TCPAddr).Port))
		l.Close()
	}
	c.etcd = "embedded=" + strings.Join(list, ",")
	t.Cleanup(func() {
		for _, a := range c.agents {
			_ = a.Process.Signal(syscall.SIGCONT)
			_ = a.Process.Kill()
		}
		for host := range c.agents {
			<-c.ends[host]
			_ = os.RemoveAll(filepath.Join(os.TempDir(), "galley-etcd-"+c.name+"-"+host))
			_ = os.RemoveAll("/dev/shm/galley-" + c.name + "-" + host)
		}
		if t.Failed() {
			t.Log(c.events())
		}
	})
	return c
}

// start starts the agent of a host.
func (c *testHosts) start(host string) {
	c.t.Helper()
	line := fmt.Sprintf("launch %s --etcd %s --job %s --host %s %s -- ", c.flags, c.etcd, c.name, host,
		c.network.flags(host))
	cmd := galleyCommand(c.t, append(strings.Fields(line), tinyTrain(c.train)...)...)
	c.network.within(cmd, host)
	cmd.Env = append(cmd.Env, gateVariable+"="+c.gate)
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, r := range []io.Reader{out, errs} {
		wg.Go(func() { c.read(r) })
	}
	end := make(chan error, 2)
	go func() {
		wg.Wait()
		err := cmd.Wait()
		end <- err
		end <- err
	}()
	c.agents[host], c.ends[host] = cmd, end
}

func (c *testHosts) read(r io.Reader) {
	for s := bufio.NewScanner(r); s.Scan(); {
		c.mu.Lock()
		before := len(c.h)
		if step := c.h.take(c.t, s.Text()); step > 0 {
			c.last = step
			c.told++
			if len(c.h) == before {
				c.again++
			}
		} else {
			fmt.Fprintln(&c.log, time.Now().Format("05.000"), s.Text())
		}
		c.mu.Unlock()
	}
}

func (c *testHosts) events() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

func (c *testHosts) step() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// goesOn waits until the run reports a step at least n further, and says how long that took.
func (c *testHosts) goesOn(n int, within time.Duration) time.Duration {
	c.t.Helper()
	began, from := time.Now(), c.step()
	for time.Since(began) < within {
		if s := c.step(); s >= from+n || s < from {
			return time.Since(began)
		}
		time.Sleep(5 * time.Millisecond)
	}
	c.t.Fatalf("no step after step %d for %v\n%s", from, within, c.events())
	return 0
}

// workers returns the processes of a host that train; servers those that are its etcd.
func (c *testHosts) workers(host string, servers bool) (pids []int) {
	text, _ := exec.Command("pgrep", "-P", strconv.Itoa(c.agents[host].Process.Pid)).Output()
	for _, word := range strings.Fields(string(text)) {
		pid, _ := strconv.Atoi(word)
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(line), etcd.Command) == servers {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestElasticHosts: hosts join, are drained and die; every step is told, to the bit what one process tells.
func TestElasticHosts(t *testing.T) {
	notShort(t)
	const train = "--mesh dp=4 --steps 1000"
	c := newHosts(t, "--elastic 1:2 --lease 4s", train, "a")
	c.start("a")
	c.goesOn(5, long)
	c.start("b")
	c.wait("processes on a, b", long)
	c.goesOn(5, long)
	if out, err := galleyCommand(t, "status", "--job", c.name).CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "2 processes on 2 hosts") {
		t.Errorf("status: got %v and %s", err, out)
	}
	if out, err := galleyCommand(t, "drain", "nobody", "--job", c.name).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "no host") {
		t.Errorf("drain of nobody: got %v and %s", err, out)
	}
	if err := c.agents["b"].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.wait("host b is lost", long)
	c.goesOn(5, long)
	openGate(t, c.gate)
	if err := <-c.ends["a"]; err != nil {
		t.Fatalf("%v\n%s", err, c.events())
	}
	c.h.whole(t, plainRun(t, 2, train))
}

var epochSpread = regexp.MustCompile(`epoch \d+: (\d) processes on .*; a step is spread by (.*)`)

// TestElasticPlans: hosts leave and join, 4, 2 and 3 processes by plans of the planner, which are keys of
// their epochs; no step is taken again, and losses are those of one process but for the last digits.
func TestElasticPlans(t *testing.T) {
	const train = "--steps 400 --lr 1e-4 --batch 12"
	c := newHosts(t, "--elastic 1:4 --lease 60s", train, "a")
	for _, host := range []string{"a", "b", "c", "d"} {
		c.start(host)
	}
	c.wait("4 processes on ", long)
	c.goesOn(3, long)
	c.leaves("c") // at once one after the other: what the first gave the second to keep must not be lost
	c.leaves("d")
	c.wait("2 processes on a, b", long)
	c.goesOn(3, long)
	c.start("c") // they wait, as cores are shared and a third process gains nothing
	c.start("d")
	time.Sleep(time.Second)
	c.leaves("b")
	c.wait("3 processes on a, c, d", long)
	c.goesOn(3, long)
	openGate(t, c.gate)
	if err := <-c.ends["a"]; err != nil {
		t.Fatalf("%v\n%s", err, c.events())
	}
	plans := map[string]string{}
	for _, m := range epochSpread.FindAllStringSubmatch(c.events(), -1) {
		plans[m[1]] = m[2]
	}
	if plans["2"] == "" || plans["3"] == "" || plans["4"] == "" || plans["2"] == plans["3"] ||
		plans["3"] == plans["4"] {
		t.Errorf("got plans %v\n%s", plans, c.events())
	}
	if c.again > 0 {
		t.Errorf("%d steps were taken again", c.again)
	}
	c.h.near(t, plainRun(t, 1, train), 1e-6)
}

// leaves has a host leave in order.
func (c *testHosts) leaves(host string) {
	c.t.Helper()
	_ = c.agents[host].Process.Signal(syscall.SIGTERM)
	if err := <-c.ends[host]; err != nil {
		c.t.Fatalf("SIGTERM to %s: got %v\n%s", host, err, c.events())
	}
}

// near checks that every step was told, with a loss that differs by at most a part of it from another run's.
func (h history) near(t *testing.T, want history, part float64) {
	t.Helper()
	if len(h) != len(want) {
		t.Errorf("got %d steps, want %d", len(h), len(want))
	}
	for step, text := range want {
		var x, y float64
		_, err1 := fmt.Sscanf(h[step], "loss %g", &x)
		_, err2 := fmt.Sscanf(text, "loss %g", &y)
		if err1 != nil || err2 != nil || math.Abs(x-y) > part*math.Abs(y) {
			t.Fatalf("step %d: got %q, want %q within %g of it", step, h[step], text, part)
		}
	}
}

// wait waits until an event is told.
func (c *testHosts) wait(part string, within time.Duration) {
	c.t.Helper()
	for began := time.Now(); !strings.Contains(c.events(), part); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > within {
			c.t.Fatalf("%q was not told for %v\n%s", part, within, c.events())
		}
	}
}

var leftAfter = regexp.MustCompile(`epoch \d+: .* after step (\d+): host b leaves`)

// TestElasticLeaves: a host that gets SIGTERM hands on and leaves with exit code 0; nothing is taken again.
// Hosts with other flags are refused, and a job with too few waits and says so.
func TestElasticLeaves(t *testing.T) {
	notShort(t)
	const train = "--mesh dp=4 --steps 1000"
	c := newHosts(t, "--elastic 2:3 --lease 60s", train, "a")
	c.start("a")
	c.wait("1 of at least 2 hosts are here", long)
	c.start("b")
	c.goesOn(5, long)
	line := fmt.Sprintf(
		"launch --elastic 2:3 --etcd %s --job %s --host d -- train --mesh dp=4 --steps 3",
		c.etcd,
		c.name,
	)
	if out, err := galleyCommand(t, strings.Fields(line)...).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "other flags") {
		t.Errorf("other flags: got %v and %s", err, out)
	}
	c.start("c") // a third is of no use for four devices, until another leaves
	time.Sleep(time.Second)
	_ = c.agents["b"].Process.Signal(syscall.SIGTERM)
	if err := <-c.ends["b"]; err != nil {
		t.Fatalf("SIGTERM: got %v\n%s", err, c.events())
	}
	c.wait("host b leaves", long)
	openGate(t, c.gate)
	if err := <-c.ends["a"]; err != nil {
		t.Fatalf("%v\n%s", err, c.events())
	}
	m := leftAfter.FindStringSubmatch(c.events())
	if m == nil {
		t.Fatalf("no epoch after b had left\n%s", c.events())
	}
	if c.again > 0 {
		t.Errorf("%d steps were taken again", c.again)
	}
	c.h.whole(t, plainRun(t, 2, train))
}

// server runs the etcd of the first host by itself, so that no agent takes it along, and says where.
func (c *testHosts) server() (address string) {
	c.t.Helper()
	_, address, _ = strings.Cut(strings.TrimPrefix(c.etcd, "embedded="), "@")
	server := galleyCommand(c.t, etcd.Command, "--name", address, "--hosts", address,
		"--dir", filepath.Join(c.t.TempDir(), "data"))
	stdin, err := server.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		stdin.Close()
		_ = server.Wait()
	})
	for range 6000 {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.etcd = "http://" + address
	return address
}

// copied waits until a host keeps a whole copy of another's snapshots that is later than what there was.
func (c *testHosts) copied(on, of string) {
	c.t.Helper()
	began := time.Now()
	for time.Since(began) < long {
		list, _ := filepath.Glob(fmt.Sprintf("/dev/shm/galley-%s-%s/copies/%s/e*/p*/s?/manifest.json", c.name, on,
			of))
		whole := 0
		for _, path := range list {
			if st, err := os.Stat(path); err == nil && st.Size() > 0 {
				whole++
			}
		}
		if whole >= 4 { // both processes, two each
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("host %s has no copy of %s's snapshots\n%s", on, of, c.events())
}

// TestElasticSpare: a host that is not needed keeps copies. So the other may be drained, come back, and be
// killed or stopped as service managers do, its processes with it: the one that waits goes on.
func TestElasticSpare(t *testing.T) {
	notShort(t)
	const train = "--mesh dp=2 --zero 1 --steps 600"
	c := newHosts(t, "--elastic 1:2 -n 2 --lease 4s", train, "a")
	c.server()
	c.start("a")
	c.goesOn(3, long)
	c.start("b")
	c.copied("b", "a")
	if out, err := galleyCommand(t, "drain", "a", "--job", c.name).CombinedOutput(); err != nil {
		t.Fatalf("drain: %v\n%s", err, out)
	}
	if err := <-c.ends["a"]; err != nil {
		t.Fatalf("drained: %v\n%s", err, c.events())
	}
	c.wait("2 processes on b, after step", long)
	if c.again > 0 {
		t.Errorf("%d steps were taken again", c.again)
	}
	c.start("a") // it is back, and waits
	c.copied("a", "b")
	_ = c.agents["b"].Process.Kill()
	c.wait("2 processes on a, after step", long)
	c.start("b")
	c.copied("b", "a")
	for _, pid := range append(c.workers("a", false), c.agents["a"].Process.Pid) { // as systemd does
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	if err := <-c.ends["a"]; err != nil {
		t.Fatalf("SIGTERM to all: %v\n%s", err, c.events())
	}
	openGate(t, c.gate)
	if err := <-c.ends["b"]; err != nil {
		t.Fatalf("%v\n%s", err, c.events())
	}
	if n := strings.Count(c.events(), "without a snapshot"); n != 1 {
		t.Errorf("%d epochs began without a snapshot\n%s", n, c.events())
	}
	c.h.whole(t, plainRun(t, 2, train))
}

// TestElasticSlowStore: a store that takes half a second for a write slows the beginning of epochs and
// nothing else.
func TestElasticSlowStore(t *testing.T) {
	const train = "--mesh dp=2 --steps 60"
	c := newHosts(t, "--elastic 1:1 -n 2", train, "a")
	address := c.server()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	proxy.FlushInterval = -1
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v3/kv/txn" {
			time.Sleep(500 * time.Millisecond)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.CloseClientConnections)
	c.etcd = slow.URL
	c.start("a")
	c.goesOn(3, long)
	if pids := c.workers("a", false); len(pids) > 0 {
		_ = syscall.Kill(pids[0], syscall.SIGKILL)
	}
	openGate(t, c.gate)
	if err := <-c.ends["a"]; err != nil {
		t.Fatalf("%v\n%s", err, c.events())
	}
	c.h.whole(t, plainRun(t, 2, train))
}
