package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallRun trains a small model for ever, or for so many steps. Flags of args stand in place of its own.
func smallRun(steps int, args ...string) []string {
	list := []string{"train", "--steps", fmt.Sprint(steps), "--log-losses"}
	for _, f := range [][2]string{
		{"--dim", "16"}, {"--layers", "1"}, {"--heads", "2"}, {"--batch", "2"}, {"--seq", "8"}, {"--tokens", "0"},
		{"--threads", "1"},
	} {
		if !slices.Contains(args, f[0]) {
			list = append(list, f[0], f[1])
		}
	}
	return append(list, args...)
}

// until starts the command and returns once it has printed a line that begins so, with a channel of the rest.
func until(t *testing.T, c *exec.Cmd, prefix string) <-chan []string {
	t.Helper()
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	found, rest := make(chan bool, 1), make(chan []string, 1)
	go func() {
		var list []string
		for s := bufio.NewScanner(out); s.Scan(); {
			list = append(list, s.Text())
			if strings.HasPrefix(s.Text(), prefix) {
				select {
				case found <- true:
				default:
				}
			}
		}
		select {
		case found <- false:
		default:
		}
		rest <- list
	}()
	if !<-found {
		t.Fatalf("no line %q", prefix)
	}
	return rest
}

// exitOf waits for a command and is its exit code.
func exitOf(t *testing.T, c *exec.Cmd) int {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	select {
	case <-done:
	case <-time.After(10 * time.Minute):
		t.Fatal("it does not end")
	}
	return c.ProcessState.ExitCode()
}

// lastStep returns the number of the last step that was printed.
func lastStep(lines []string) (n int) {
	for _, line := range lines {
		var loss, norm float64
		var step int
		if k, _ := fmt.Sscanf(line, "step %d loss %g norm %g", &step, &loss, &norm); k == 3 {
			n = step
		}
	}
	return n
}

// TestSignals: SIGINT, SIGTERM and SIGHUP end a run with its last state and its model saved, and an exit code
// that tells.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signalName(s), func(t *testing.T) {
			if s != syscall.SIGINT {
				notShort(t)
			}
			dir := t.TempDir()
			run, out := filepath.Join(dir, "run"), filepath.Join(dir, "out")
			c := command(smallRun(1_000_000, "--checkpoint", run, "--every", "500000", "--save", out)...)
			var stderr bytes.Buffer
			c.Stderr = &stderr
			rest := until(t, c, "step 3 ")
			if err := c.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			lines := <-rest
			if code := exitOf(t, c); code != 128+int(s) {
				t.Errorf("exit code %d, want %d", code, 128+int(s))
			}
			n := lastStep(lines)
			if n < 3 {
				t.Fatalf("stopped after %d steps", n)
			}
			if want := fmt.Sprintf("stopped by %s after %d steps", signalName(s),
				n); !strings.Contains(stderr.String(), want) {
				t.Errorf("said %q, want %q", stderr.String(), want)
			}
			for _, path := range []string{filepath.Join(run, fmt.Sprintf("step-%08d", n)),
				filepath.Join(out, "config.json")} {
				if _, err := os.Stat(path); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestSecondSignal: a second signal ends at once, in the midst of a step.
func TestSecondSignal(t *testing.T) {
	notShort(t)
	t.Parallel()
	run := filepath.Join(t.TempDir(), "run")
	c := command("train", "--steps", "5", "--dim", "512", "--layers", "4", "--heads", "4", "--batch", "4",
		"--seq", "256", "--tokens", "0", "--threads", "1", "--checkpoint", run)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	rest := until(t, c, "llama")
	for {
		if _, err := os.Stat(filepath.Join(run, keptModel, "config.json")); err == nil {
			break // signals are caught, and the first step begins
		}
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond) // the first step has begun, and takes longer
	for range 2 {
		if err := c.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	<-rest
	if code := exitOf(t, c); code != 130 || !strings.Contains(stderr.String(), "ended at once") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if list, _ := filepath.Glob(filepath.Join(run, "step-*")); len(list) > 0 {
		t.Errorf("it left %v", list)
	}
}

// TestLastStep: a run that ends between two checkpoints leaves one of its last step, steps count from 1 in
// all that is printed, and one that goes on counts on.
func TestLastStep(t *testing.T) {
	notShort(t)
	t.Parallel()
	run := filepath.Join(t.TempDir(), "run")
	log := run + ".jsonl"
	for _, x := range []struct {
		steps      int
		args, want []string
	}{
		{7, nil, []string{"step 7 loss", "step 7/7  loss"}},
		{12, []string{"--changed", "schedule"}, []string{"step 8/12  loss", "step 12 loss",
			"step 12/12  loss", "going on after 7 steps"}},
	} {
		out, err := command(smallRun(x.steps, append(x.args, "--checkpoint", run, "--every", "5", "--log",
			log)...)...).Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range x.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%q is not in\n%s", want, out)
			}
		}
		if i := strings.Index(string(out), "step "); i < 0 || strings.Contains(string(out), "step 0") {
			t.Errorf("steps count from 0:\n%s", out)
		}
		if _, err := os.Stat(filepath.Join(run, fmt.Sprintf("step-%08d", x.steps))); err != nil {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var steps []string
	for _, line := range lines {
		if strings.Contains(line, `"loss"`) {
			steps = append(steps, line[:strings.Index(line, ",")])
		}
	}
	if len(steps) != 12 || steps[0] != `{"step":1` || steps[11] != `{"step":12` {
		t.Errorf("the log has %v", steps)
	}
}

// TestPrintedLoss: what progress shows is the step's own loss.
func TestPrintedLoss(t *testing.T) {
	notShort(t)
	t.Parallel()
	out, err := command(smallRun(25, "--lr", "0.05")...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var own, shown float64
	for _, line := range strings.Split(string(out), "\n") {
		fmt.Sscanf(line, "step 25 loss %g", &own)
		fmt.Sscanf(line, "step 25/25  loss %g", &shown)
	}
	if own == 0 || fmt.Sprintf("%.4f", own) != fmt.Sprintf("%.4f", shown) {
		t.Errorf("shown is %v, the loss is %v", shown, own)
	}
}

// TestOtherRun: going on with another seed, batch or text is refused with both values.
func TestOtherRun(t *testing.T) {
	notShort(t)
	t.Parallel()
	run := filepath.Join(t.TempDir(), "run")
	if out, err := said(smallRun(3, "--checkpoint", run)...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for want, args := range map[string][]string{
		"seed is 2, and was 1":  {"--seed", "2"},
		"batch is 4, and was 2": {"--batch", "4"},
		"seq is 12, and was 8":  {"--seq", "12"},
		"data is ":              {"--data", "testdata/train.txt"},
		`"LR":0.001`:            {"--lr", "0.001"},
		"clip is 2, and was 1":  {"--clip", "2"},
		"--changed=optimizer":   {"--decay", "0.2"},
	} {
		out, err := said(smallRun(3, append(args, "--checkpoint", run)...)...)
		if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != exitUsage || !strings.Contains(out, want) {
			t.Errorf("%v: got %v, want %q:\n%s", args, err, want, out)
		}
	}
	out, err := said(smallRun(4, "--checkpoint", run, "--batch", "4", "--changed", "batch,schedule")...)
	if err != nil || !strings.Contains(out, "batch is 4, and was 2") {
		t.Errorf("%v\n%s", err, out)
	}
}

// said runs the command and is all that it prints.
func said(args ...string) (string, error) {
	c := command(args...)
	c.Stderr = nil
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestRewind goes back to an earlier step.
func TestRewind(t *testing.T) {
	notShort(t)
	t.Parallel()
	run := filepath.Join(t.TempDir(), "run")
	train := func(steps int, args ...string) (string, error) {
		return said(smallRun(steps, append(args, "--checkpoint", run, "--every", "2", "--keep", "5",
			"--changed", "schedule")...)...)
	}
	if out, err := train(8); err != nil {
		t.Fatal(err, out)
	}
	if out, err := train(8, "--from", "4"); err == nil || !strings.Contains(out, "--rewind removes them") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := train(8, "--from", "3", "--rewind"); err == nil || !strings.Contains(out, "no step 3") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := train(5, "--from", "4", "--rewind"); err != nil || !strings.Contains(out,
		"going on after 4 steps") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := train(6, "--rewind"); err != nil || !strings.Contains(out, "going on after 4 steps") {
		t.Errorf("%v\n%s", err, out)
	}
	list, _ := filepath.Glob(filepath.Join(run, "step-*"))
	if len(list) != 3 || filepath.Base(list[2]) != "step-00000006" {
		t.Errorf("left %v", list)
	}
}
