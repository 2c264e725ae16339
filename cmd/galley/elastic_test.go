package main

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// elasticRun is an agent and what it prints.
type elasticRun struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	lines  chan string
	gate   string // a file: until it is there, steps are slow
}

// startElastic starts an agent with flags before and behind the dashes.
func startElastic(t *testing.T, launch, train string) *elasticRun {
	t.Helper()
	needMPICH(t)
	args := append(strings.Fields("launch "+launch+" -- train "+train), tinyRun...)
	r := &elasticRun{
		t:      t,
		cmd:    galleyCommand(t, args...),
		stderr: &bytes.Buffer{},
		lines:  make(chan string, 1<<16),
		gate:   filepath.Join(t.TempDir(), "gate"),
	}
	r.cmd.Env = append(r.cmd.Env, gateVariable+"="+r.gate)
	r.cmd.Stderr = r.stderr
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			r.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			_ = r.cmd.Process.Kill()
			_ = r.cmd.Wait()
		}
	})
	return r
}

var stepLine = regexp.MustCompile(`^step (\d+) (loss .* norm .*)$`)

// history is the losses that runs told, by step.
type history map[int]string

// take reads a line; step is 0 if it reports none. A step that is told twice has to be the same.
func (h history) take(t *testing.T, line string) (step int) {
	m := stepLine.FindStringSubmatch(line)
	if m == nil {
		return 0
	}
	step, _ = strconv.Atoi(m[1])
	if before, ok := h[step]; ok && before != m[2] {
		t.Errorf("step %d: %s, and before %s", step, m[2], before)
	}
	h[step] = m[2]
	return step
}

// whole checks that every step was told, and that it is the one of a run that nothing happened to.
func (h history) whole(t *testing.T, want history) {
	t.Helper()
	for step, text := range want {
		if h[step] != text {
			t.Errorf("step %d: got %q, want %q", step, h[step], text)
		}
	}
	if len(h) != len(want) {
		t.Errorf("got %d steps, want %d", len(h), len(want))
	}
}

// plainRun returns the history of a run without agents.
func plainRun(t *testing.T, n int, train string) history {
	t.Helper()
	args := append([]string{"launch", "-n", strconv.Itoa(n), "--"}, tinyTrain(train)...)
	out, err := galleyCommand(t, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	h := history{}
	for line := range strings.SplitSeq(string(out), "\n") {
		h.take(t, line)
	}
	return h
}

// TestLaunchWithoutMPI: without any MPI library processes are connected by TCP, with the same numbers.
func TestLaunchWithoutMPI(t *testing.T) {
	needMPICH(t)
	const train = "--mesh dp=2 --zero 1 --steps 3"
	want := plainRun(t, 2, train)
	t.Setenv("GALLEY_MPI_LIBRARY", "/nowhere/libmpi.so")
	plainRun(t, 2, train).whole(t, want)
}

// TestElasticKills: random workers are killed; every step is told, and to the bit what it is without that.
func TestElasticKills(t *testing.T) {
	notShort(t)
	const train = "--mesh dp=2 --zero 1 --steps 400"
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	r := startElastic(t, "--elastic 1:1 -n 2 --job kills"+strconv.Itoa(os.Getpid()), train)
	got, kills, next := history{}, 0, 3
	for line := range r.lines {
		if step := got.take(t, line); step >= next && kills < 3 {
			pids := children(t, r.cmd.Process.Pid)
			if len(pids) == 0 {
				continue
			}
			_ = syscall.Kill(pids[random.IntN(len(pids))], syscall.SIGKILL)
			if kills, next = kills+1, step+5+random.IntN(20); kills == 3 {
				openGate(t, r.gate)
			}
		}
	}
	if err := r.cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, r.stderr)
	}
	if kills != 3 || strings.Count(r.stderr.String(), "was killed") < 3 {
		t.Errorf("%d kills\n%s", kills, r.stderr)
	}
	got.whole(t, plainRun(t, 2, train))
}

// TestElasticEnds: a mistake ends the job with its text, once, and exit code 2; a signal ends it after a
// step.
func TestElasticEnds(t *testing.T) {
	notShort(t)
	needMPICH(t)
	job := " --job ends" + strconv.Itoa(os.Getpid())
	for _, test := range []struct {
		line, want string
		code       int
	}{
		{"launch --elastic 3:2 -- train", "--elastic=3:2", 2},
		{"launch --elastic 1:2 -- train", "--etcd", 2},
		{"launch --elastic 1:1 -- dump", "want train", 2},
		{"launch --elastic 1:1 -- train --stepz 2", "unknown flag", 2},
		{"launch --elastic 1:1 --memory /nowhere -- train", "--memory=/nowhere", 2},
		{"launch -n 2 --etcd http://x -- train", "--elastic", 2},
		{"launch --elastic 1:1 -n 2" + job + " -- train --steps 2 --data /nowhere/text --mesh dp=2",
			"/nowhere/text", 2},
		{"launch --elastic 1:1 -n 2" + job +
			" -- train --steps 9 --lr 1e30 --mesh dp=2 --tokens 0 --dim 32 --heads 2 --seq 16 --batch 8",
			"step", 2},
	} {
		out, err := galleyCommand(t, strings.Fields(test.line)...).CombinedOutput()
		exit, ok := err.(*exec.ExitError)
		if !ok || exit.ExitCode() != test.code || !strings.Contains(string(out), test.want) {
			t.Errorf("%s: got %v and %s, want %q and code %d", test.line, err, out, test.want, test.code)
		}
	}
	r := startElastic(t, "--elastic 1:1 -n 2"+job, "--steps 100000 --mesh dp=2 --checkpoint "+t.TempDir())
	got := history{}
	for line := range r.lines {
		if got.take(t, line) == 5 {
			_ = r.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	err := r.cmd.Wait()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("SIGTERM: got %v\n%s", err, r.stderr)
	}
	if left, _ := os.ReadDir("/dev/shm"); slicesContain(left, "ends"+strconv.Itoa(os.Getpid())) {
		t.Error("the agent's memory is still there")
	}
}

func slicesContain(list []os.DirEntry, part string) bool {
	for _, e := range list {
		if strings.Contains(e.Name(), part) {
			return true
		}
	}
	return false
}
