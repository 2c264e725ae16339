package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/mpi"
)

// needMPICH skips a test where processes cannot be started by galley itself.
func needMPICH(t *testing.T) {
	t.Helper()
	if _, err := mpi.Library(mpi.MPICH); err != nil {
		t.Skipf("MPICH is not installed: %v", err)
	}
}

// galleyCommand returns this binary as the command.
func galleyCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = commandEnv()
	return cmd
}

// commandEnv makes this binary the command. Processes that are healthy are not given up where many tests
// share few cores.
func commandEnv() []string { return append(os.Environ(), asCommand+"=1", "GALLEY_PATIENCE=5m") }

// tinyTrain is the command of a run of a second, with flags that may say another batch.
func tinyTrain(flags string) []string {
	rest := slices.Clone(tinyRun)
	if at := slices.Index(rest, "--batch"); strings.Contains(flags, "--batch") {
		rest = slices.Delete(rest, at, at+2)
	}
	return append(strings.Fields("train "+flags), rest...)
}

// tinyRun is flags of a run of a second.
var tinyRun = strings.Fields(
	"--tokens 0 --dim 32 --layers 2 --heads 2 --seq 16 --batch 8 --threads 1 --log-losses",
)

var lossLine = regexp.MustCompile(`(?m)^step \d+ loss .*$`)

// TestLaunch: processes have the losses of one, and print them once.
func TestLaunch(t *testing.T) {
	needMPICH(t)
	meshes := []string{"--mesh=dp=2 --zero=1", "--mesh=tp=2", "--mesh=pp=2 --micro=2"}
	if testing.Short() {
		meshes = meshes[:1]
	}
	for _, mesh := range meshes {
		args := append(strings.Fields("train --steps 4 "+mesh), tinyRun...)
		one, err := galleyCommand(t, args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		two, err := galleyCommand(t, append([]string{"launch", "-n", "2", "--"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, two)
		}
		got, want := lossLine.FindAllString(string(two), -1), lossLine.FindAllString(string(one), -1)
		if len(want) != 4 || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: got %q, want %q", mesh, got, want)
		}
	}
}

// TestLaunchMistakes: each is one line, told once, and the exit code is not 0.
func TestLaunchMistakes(t *testing.T) {
	notShort(t)
	needMPICH(t)
	for _, test := range []struct{ line, want string }{
		{"launch -n 2 -- train --steps=2 --mesh=dp=3", `3 devices for 2 processes`},
		{"launch -n 2 -- dump", "is for one process"},
		{"launch -n 2 -- eval /nowhere", "is for one process"},
		{"launch -n 2 -- generate /nowhere", "is for one process"},
		{"launch -n 2 -- train --stepz", "unknown flag"},
		{"launch -n 2 -- train --data=/nowhere/text", "/nowhere/text"},
		{"launch -n 0 -- train", "processes"},
	} {
		out, err := galleyCommand(t, strings.Fields(test.line)...).CombinedOutput()
		n := strings.Count(string(out), "galley: ")
		if err == nil || n != 1 || !strings.Contains(string(out), test.want) {
			t.Errorf("%s: got %v and %q, want %q once", test.line, err, out, test.want)
		}
	}
}

// TestLaunchBinds: processes are on threads of their own, and train the same.
func TestLaunchBinds(t *testing.T) {
	notShort(t)
	needMPICH(t)
	if allowed, err := allowedThreads(); err != nil || len(allowed) < 2 {
		t.Skipf("two threads are needed: %v, %v", allowed, err)
	}
	train := append(strings.Fields("train --steps 2 --mesh dp=2"), tinyRun...)
	want := losses(t, galleyCommand(t, train...))
	got := losses(t, galleyCommand(t, append(strings.Fields("launch -n 2 --bind cores --"), train...)...))
	if got != want || want == "" {
		t.Errorf("got %s, want %s", got, want)
	}
	out, err := galleyCommand(
		t,
		strings.Fields("launch -n 2 --bind cores -- doctor --cluster")...).CombinedOutput()
	if allowed, _ := allowedThreads(); len(allowed) == 2 && strings.Count(string(out), ": 1 thread(s)") != 2 ||
		err != nil {
		t.Errorf("got %v and %s, want one thread each", err, out)
	}
	out, err = galleyCommand(t, strings.Fields("launch -n 99999 --bind cores -- train")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "99999 processes for") {
		t.Errorf("got %v and %s", err, out)
	}
}

// started returns a run without an end, once its first step is told; pids are its processes.
func started(t *testing.T, env ...string) (cmd *exec.Cmd, out *bytes.Buffer, pids []int) {
	t.Helper()
	cmd = galleyCommand(
		t,
		append(strings.Fields("launch -n 2 -- train --steps 1000000 --mesh dp=2"), tinyRun...)...)
	cmd.Env = append(cmd.Env, env...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = w, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	b := make([]byte, 4096)
	for seen := ""; !strings.Contains(seen, "step 1 loss"); {
		n, err := r.Read(b)
		if err != nil {
			t.Fatalf("%v\n%s%s", err, seen, out)
		}
		seen += string(b[:n])
	}
	go func() {
		for {
			if _, err := r.Read(b); err != nil {
				return
			}
		}
	}()
	return cmd, out, children(t, cmd.Process.Pid)
}

// children returns the processes that a process has started.
func children(t *testing.T, pid int) []int {
	t.Helper()
	text, err := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return nil // there are none
	}
	if err != nil {
		t.Skipf("no pgrep: %v", err)
	}
	var list []int
	for _, word := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, n)
	}
	return list
}

// TestLaunchKilled: a process that is killed ends the others.
func TestLaunchKilled(t *testing.T) {
	notShort(t)
	needMPICH(t)
	cmd, out, pids := started(t)
	if err := syscall.Kill(pids[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(out.String(), "it was killed") {
		t.Errorf("got %v and %s", err, out)
	}
	gone(t, pids)
}

// TestLaunchInterrupted: a signal to one process stops all after the same step.
func TestLaunchInterrupted(t *testing.T) {
	needMPICH(t)
	cmd, out, pids := started(t)
	if err := syscall.Kill(pids[1], syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if cmd.ProcessState.ExitCode() != 130 || !strings.Contains(out.String(), "stopped by SIGINT after") {
		t.Errorf("got %v and %s, want 130", err, out)
	}
}

// TestLaunchStopped: a process that is stopped is named, with what the others wait for, and none stays
// behind.
func TestLaunchStopped(t *testing.T) {
	needMPICH(t)
	if testing.Short() {
		t.Skip("it waits as long as a healthy process may be silent on a crowded machine")
	}
	cmd, out, pids := started(t, "GALLEY_PATIENCE=10s")
	if err := syscall.Kill(pids[1], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if text := out.String(); err == nil ||
		!strings.Contains(text, "process 1 is lost: it has not answered for 10s") ||
		!strings.Contains(text, "rank 0 is in") && !strings.Contains(text, "wait") ||
		strings.Count(text, "is lost") != 1 {
		t.Errorf("got %v and %s", err, text)
	}
	gone(t, pids)
}

// gone checks that no process is left.
func gone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		for range 6000 {
			if syscall.Kill(pid, 0) != nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d stayed behind", pid)
		}
	}
}

// TestProcessesDiffer: what is not the same on all processes is one line that says what, and where.
func TestProcessesDiffer(t *testing.T) {
	notShort(t)
	needMPICH(t)
	hydra, err := exec.LookPath("mpiexec.hydra")
	if err != nil {
		t.Skip("mpiexec.hydra is not installed")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("Another text than the book's. ", 500)),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ env, flags, want string }{
		{"", "binary", "binary"}, // of another build
		{"", "--seed=2", "seed"},
		{"", "--stepz=2", "unknown flag"},
		{"", "--dim=64", "--dim"},
		{"", "--data=" + text, "want the same on all"},
		{"GALLEY_KERNELS=plain", "", "kernels"},
	} {
		train := append(strings.Fields("train --steps=2 --mesh=dp=2"), tinyRun...)
		args := append([]string{"-n", "1", self}, append(train, ":", "-n", "1")...)
		if name, value, ok := strings.Cut(test.env, "="); ok {
			args = append(args, "-env", name, value)
		}
		if test.flags == "binary" {
			args = append(append(args, otherBuild(t, self)), train...)
		} else {
			args = append(append(args, self), append(train, strings.Fields(test.flags)...)...)
		}
		cmd := exec.CommandContext(t.Context(), hydra, args...)
		cmd.Env = commandEnv()
		out, err := cmd.CombinedOutput()
		if err == nil || strings.Count(string(out), "galley: ") != 1 || !strings.Contains(string(out), test.want) ||
			!strings.Contains(string(out), "process ") {
			t.Errorf("%s%s: got %v and %s, want one line with %q", test.env, test.flags, err, out, test.want)
		}
	}
}

// otherBuild returns a copy of a program whose file differs.
func otherBuild(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	copied := filepath.Join(t.TempDir(), "galley")
	if err == nil {
		err = os.WriteFile(copied, append(text, 0), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	return copied
}

// TestOtherLibrary: a library of another family than the launcher serves, or none, is refused by name.
func TestOtherLibrary(t *testing.T) {
	notShort(t)
	needMPICH(t)
	if _, err := mpi.Library(mpi.OpenMPI); err != nil {
		t.Skipf("Open MPI is not installed: %v", err)
	}
	const hydra, mpirun = "PMI_RANK=0 PMI_SIZE=2", "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2"
	for _, test := range []struct{ launcher, library, want string }{
		{hydra, "libmpi.so.40", "which serves MPICH; but libmpi.so.40 is Open MPI"},
		{mpirun, "libmpich.so.12", "which serves Open MPI; but libmpich.so.12 is MPICH"},
		{mpirun, "/nowhere/libmpi.so", "GALLEY_MPI_LIBRARY=/nowhere/libmpi.so"},
		{hydra, "/nowhere/libmpi.so", "GALLEY_MPI_LIBRARY=/nowhere/libmpi.so"},
	} {
		cmd := galleyCommand(t, append(strings.Fields("train --steps=2 --mesh=dp=2"), tinyRun...)...)
		cmd.Env = append(append(cmd.Env, strings.Fields(test.launcher)...), "GALLEY_MPI_LIBRARY="+test.library)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), test.want) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%s, %s: got %v and %s, want one line with %s", test.launcher, test.library, err, out, test.want)
		}
	}
}

// TestLaunchResumes: a job that is killed continues from its checkpoints, in any number of processes, with
// the losses of a run that nobody disturbed.
func TestLaunchResumes(t *testing.T) {
	notShort(t)
	needMPICH(t)
	dir := filepath.Join(t.TempDir(), "run")
	line := append(strings.Fields("train --steps 40 --mesh dp=2 --every 1"), tinyRun...)
	quiet, err := galleyCommand(t, line...).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := lossLine.FindAllString(string(quiet), -1)
	line = append(line, "--checkpoint", dir)
	cmd := galleyCommand(t, append([]string{"launch", "-n", "2", "--"}, line...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 60_000 { // until there is a checkpoint
		if found, err := filepath.Glob(filepath.Join(dir, "step-*")); err != nil || len(found) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if pids := children(t, cmd.Process.Pid); len(pids) > 0 {
		_ = syscall.Kill(pids[0], syscall.SIGKILL) // it may have ended by itself
	}
	_ = cmd.Wait()
	for _, start := range [][]string{{"launch", "-n", "2", "--"}, nil} {
		out, err := galleyCommand(t, append(start, line...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, got := range lossLine.FindAllString(string(out), -1) {
			if !slices.Contains(want, got) {
				t.Errorf("got %q, which the undisturbed run has not", got)
			}
		}
	}
}

// TestLaunchMemory: a process with a share of the devices takes that share of the memory of one with all of
// them, and at most 64 MiB more (n = 2: 514 MiB of 990, n = 4: 293).
func TestLaunchMemory(t *testing.T) {
	needMPICH(t)
	if testing.Short() {
		t.Skip("it trains a model of 20 M parameters")
	}
	train := strings.Fields("train --steps=1 --mesh=dp=4 --zero=1 --tokens=0 --dim=512 --layers=6 --heads=8 " +
		"--seq=16 --batch=4 --threads=1")
	one := peaks(t, galleyCommand(t, train...), 0)
	for _, n := range []int{2, 4} {
		args := append([]string{"launch", "-n", strconv.Itoa(n), "--"}, train...)
		if n == 2 { // written one parameter at a time
			args = append(args, "--save="+filepath.Join(t.TempDir(), "model"))
		}
		all := peaks(t, galleyCommand(t, args...), n)
		t.Logf("1 process: %d MiB, %d: %v", one[0]>>20, n, all)
		for _, peak := range all {
			if most := one[0]/n + 64<<20; peak > most {
				t.Errorf("a process of %d took %d MiB, of one %d: want at most %d", n, peak>>20, one[0]>>20, most>>20)
			}
		}
	}
}

// TestLaunchLoadMemory: processes that read a model's files, split by layers or by ZeRO, take their shares of
// it, and no more at any moment.
func TestLaunchLoadMemory(t *testing.T) {
	needMPICH(t)
	if testing.Short() {
		t.Skip("it trains a model of 20 M parameters")
	}
	dir := filepath.Join(t.TempDir(), "model")
	sizes := strings.Fields("--steps=1 --tokens=0 --seq=16 --batch=4 --threads=1 --held=0 --optimizer=sgd")
	made := slices.Concat([]string{"train", "--dim=512", "--layers=6", "--heads=8", "--save=" + dir}, sizes)
	if out, err := galleyCommand(t, made...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	load := slices.Concat([]string{"train", "--model=" + dir, "--lr=1e-4"}, sizes)
	one := peaks(t, galleyCommand(t, load...), 0)
	for _, mesh := range [][]string{{"--mesh=tp=4"}, {"--mesh=dp=4", "--zero=3"}} {
		args := slices.Concat([]string{"launch", "-n", "4", "--"}, load, mesh)
		all := peaks(t, galleyCommand(t, args...), 4)
		t.Logf("1 process: %d MiB, 4 with %v: %v", one[0]>>20, mesh, all)
		for _, peak := range all {
			if most := one[0]/4 + 96<<20; peak > most {
				t.Errorf("%v: a process took %d MiB, of one %d: want at most %d", mesh, peak>>20, one[0]>>20, most>>20)
			}
		}
	}
}

// peaks returns the most memory that each of a command's n processes has had; of 0 its own.
func peaks(t *testing.T, cmd *exec.Cmd, n int) []int {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended, most := make(chan error, 1), map[int]int{}
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil || len(most) != max(n, 1) {
				t.Fatalf("%v of %d processes: %s", err, len(most), &out)
			}
			return slices.Collect(maps.Values(most))
		case <-time.After(20 * time.Millisecond):
		}
		pids := []int{cmd.Process.Pid}
		if n > 0 {
			pids = children(t, cmd.Process.Pid)
		}
		for _, pid := range pids {
			h := host{root: "/"}
			if x, ok := kilobytes(field(h.path(fmt.Sprintf("proc/%d/status", pid)), "VmHWM")); ok {
				most[pid] = max(most[pid], int(x))
			}
		}
	}
}
