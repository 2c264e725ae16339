package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/galley-ml/galley/data"
)

// asCommand makes the test binary the command itself.
const asCommand = "GALLEY_TEST_AS_COMMAND"

// command returns galley in a process of its own.
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
				if x.name != "many devices" {
					notShort(t)
				}
				x.kills = 2
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
			strings.HasPrefix(line, "going on") || strings.HasPrefix(line, "loss on") ||
			strings.HasPrefix(line, "samples of") {
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

// TestKillMixture kills a run over three sources, shards, texts and packed texts that are tokenized as they
// are needed, again and again, and continues with other devices each time: the samples of every step are
// those of a run that nobody disturbed. GALLEY_KILLS says how often.
func TestKillMixture(t *testing.T) {
	notShort(t)
	t.Parallel()
	kills := 5
	if n, err := strconv.Atoi(os.Getenv("GALLEY_KILLS")); err == nil {
		kills = n
	}
	dir := t.TempDir()
	mixedSources(t, dir)
	args := []string{"train", "--mix", "3:" + dir + "/shards", "--mix", "2:" + dir + "/b.jsonl",
		"--mix", "1:" + dir + "/c.jsonl.gz", "--stream", "--stream-block", "3000", "--rows", "packed", "--steps",
		"40",
		"--dim", "16", "--layers", "2", "--heads", "2", "--batch", "4", "--seq", "16", "--tokens", "0", "--threads",
		"1",
		"--log-samples", "--log-losses"}
	want := samplesOf(trainAndKill(t, args, -1))
	if len(want) != 40 {
		t.Fatalf("the undisturbed run told of %d steps", len(want))
	}
	args = append(args, "--checkpoint", filepath.Join(dir, "run"), "--every", "2")
	worlds := [][]string{
		nil,
		{"--mesh", "dp=2", "--zero", "1"},
		{"--mesh", "dp=4"},
		{"--mesh", "pp=2", "--micro", "2"},
		{"--mesh", "dp=2,tp=2"},
		{"--mesh", "tp=2", "--zero", "0"},
	}
	rng := rand.New(rand.NewPCG(3, uint64(kills)))
	seen, resumed := map[string]string{}, 0
	for kill := range kills + 1 {
		lines := 2 + rng.IntN(5)
		if kill == kills {
			lines = -1 // to the end
		}
		world := worlds[(kill+rng.IntN(2))%len(worlds)]
		told := trainAndKill(t, slices.Concat(args, world), lines)
		if slices.ContainsFunc(told, func(l string) bool { return strings.HasPrefix(l, "going on after") }) {
			resumed++
		}
		for step, line := range samplesOf(told) {
			if want[step] != line {
				t.Fatalf("after %d kills, on %v: %q, want %q", kill, world, line, want[step])
			}
			seen[step] = line
		}
	}
	if len(seen) != len(want) || resumed < kills/2 {
		t.Errorf("%d steps of %d were told of, and %d runs of %d went on", len(seen), len(want), resumed, kills)
	}
}

// mixedSources writes shards, JSON lines and packed JSON lines.
func mixedSources(t *testing.T, dir string) {
	t.Helper()
	var files [3]bytes.Buffer
	for i, p := range strings.Split(data.MobyDick(), "\n\n") {
		line, err := json.Marshal(map[string]string{"text": p})
		if err != nil {
			t.Fatal(err)
		}
		files[i%3].Write(append(line, '\n'))
		if i == 300 {
			break
		}
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(files[2].Bytes())
	for name, text := range map[string][]byte{"a.jsonl": files[0].Bytes(), "b.jsonl": files[1].Bytes()} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), text, 0o666))
	}
	err = errors.Join(err, w.Close(), os.WriteFile(filepath.Join(dir, "c.jsonl.gz"), packed.Bytes(), 0o666))
	if err == nil {
		err = command(
			"data",
			"tokenize",
			filepath.Join(dir, "a.jsonl"),
			"--out",
			filepath.Join(dir, "shards"),
		).Run()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// samplesOf returns what a run printed of its samples, by step.
func samplesOf(lines []string) map[string]string {
	list := map[string]string{}
	for _, line := range lines {
		if step, _, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(line, "samples of step ") {
			list[step] = line
		}
	}
	return list
}
