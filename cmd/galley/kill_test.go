package main

import (
	"bufio"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// asCommand makes the test binary the command itself.
const asCommand = "GALLEY_TEST_AS_COMMAND"

// command is galley in a process of its own.
func command(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asCommand+"=1")
	c.Stderr = os.Stderr
	return c
}

// TestKill kills a training run at random moments, again and again: it goes on each time, and every loss and
// gradient norm that any of the processes prints is, to the last digit, that of a run that nobody disturbed.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name  string
		kills int
		flags []string
	}{
		{"many devices", 20, []string{"--mesh", "dp=2,pp=2", "--zero", "1", "--micro", "2"}},
		{"one device", 5, nil},
		{"mixed precision", 5, []string{"--mesh", "dp=2", "--zero", "3", "--amp", "f16"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			if testing.Short() {
				x.kills = min(x.kills, 3)
			}
			args := append([]string{"train", "--steps", "90", "--dim", "16", "--layers", "2", "--heads", "2",
				"--batch", "4", "--seq", "8", "--tokens", "0", "--log-losses",
				"--threads", "1"}, x.flags...)
			want := map[string]bool{}
			for _, line := range trainAndKill(t, args, -1) {
				want[line] = true
			}
			args = append(args, "--checkpoint", t.TempDir(), "--every", "2")
			rng := rand.New(rand.NewPCG(1, uint64(x.kills)))
			seen := map[string]bool{}
			resumed := 0
			for kill := range x.kills + 1 {
				lines := rng.IntN(9)
				if kill == x.kills {
					lines = -1 // to the end
				}
				for _, line := range trainAndKill(t, args, lines) {
					if strings.HasPrefix(line, "going on after") {
						resumed++
						continue
					}
					if !want[line] {
						t.Fatalf("after %d kills: %q is not of the undisturbed run", kill, line)
					}
					seen[line] = true
				}
			}
			if len(seen) != len(want) {
				t.Errorf("%d lines of %d were printed", len(seen), len(want))
			}
			if resumed < x.kills/2 {
				t.Errorf("of %d runs %d found a checkpoint", x.kills, resumed)
			}
		})
	}
}

// trainAndKill runs the command and kills it a moment after it has printed some lines; less than 0 is never.
func trainAndKill(t *testing.T, args []string, lines int) []string {
	t.Helper()
	c := command(args...)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	steps := 0
	for s := bufio.NewScanner(out); s.Scan(); {
		line := s.Text()
		if strings.HasPrefix(line, "step ") && strings.Contains(line, " norm ") ||
			strings.HasPrefix(line, "going on") || strings.HasPrefix(line, "loss on") {
			list = append(list, line)
		}
		if strings.Contains(line, " norm ") {
			steps++
		}
		if lines >= 0 && steps >= lines {
			time.Sleep(time.Duration(rand.IntN(8000)) * time.Microsecond)
			_ = c.Process.Kill()
			lines = 1 << 30
		}
	}
	err = c.Wait()
	if lines < 0 && err != nil {
		t.Fatal(err)
	}
	return list
}
