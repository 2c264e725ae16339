//go:build linux || darwin

package agent

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/elastic/epoch"
	"github.com/galley-ml/galley/internal/elastic/store"
	"github.com/galley-ml/galley/internal/elastic/worker"
)

// faultVariable says what is wrong with a worker of these tests, which is this test binary.
const faultVariable = "GALLEY_AGENT_TEST"

func TestMain(m *testing.M) {
	switch os.Getenv(faultVariable) {
	case "stuck": // it beats, takes one step and no other
		worker.Join(0).Report(worker.Report{Step: 1, Seconds: 1e-3, Loss: "1"})
		time.Sleep(time.Hour)
	case "alone": // it does not reach the others
		worker.Join(0)
		time.Sleep(time.Hour)
	case "silent": // it does not beat
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

// TestWorkersThatHang: workers that do not beat, step or reach each other are ended, and the job with them
// when that happens for the third time; of stuck ones the stacks are kept.
func TestWorkersThatHang(t *testing.T) {
	for _, test := range []struct {
		fault, text  string
		beats, stuck time.Duration
	}{
		{"stuck", "stuck: no step has ended for 1s", time.Hour, time.Second},
		{"silent", "process 0 has not beaten for 1s", time.Second, time.Hour},
		{"alone", "processes have not met for 1s: can all hosts reach each other (here)?", time.Hour, time.Hour},
	} {
		t.Run(test.fault, func(t *testing.T) {
			t.Setenv(faultVariable, test.fault)
			t.Setenv("TMPDIR", t.TempDir())
			var told bytes.Buffer
			c := Config{Job: "hang", Host: "here", Config: epoch.Config{Min: 1, Max: 1}, Processes: 1,
				Args: []string{os.Args[0]}, Store: store.NewMemory(), Dir: t.TempDir(), Address: "127.0.0.1",
				Lease: 10 * time.Minute, Beats: test.beats, Stuck: test.stuck, Meet: time.Hour, Stdout: &told,
				Stderr: &told}
			if test.fault == "alone" {
				c.Meet = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			code, err := Run(ctx, c)
			if code != 1 || err == nil || !strings.Contains(err.Error(), "for the third time: "+test.text) {
				t.Errorf("code %d, %v, want 1 and %q\n%s", code, err, test.text, told.String())
			}
			stacks, _ := filepath.Glob(filepath.Join(os.TempDir(), "galley-stacks-hang-here", "*.txt"))
			if (len(stacks) > 0) != (test.fault == "stuck") {
				t.Errorf("stacks: %v", stacks)
			}
		})
	}
}

// TestTypicalStep: steps that are notified of in pairs, at once and after two, and one that took long.
func TestTypicalStep(t *testing.T) {
	w := &group{}
	for range 10 {
		w.seconds = append(w.seconds, 0, 0.2)
	}
	w.seconds = append(w.seconds, 60)
	if got := w.typicalStep(); got < 90*time.Millisecond || got > 120*time.Millisecond {
		t.Errorf("got %v, want about 100 ms", got)
	}
}
