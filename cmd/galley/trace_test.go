package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/mpi"
)

var trafficLine = regexp.MustCompile(`(?m)^dp +reduce_scatter +\S.*$`)

// TestTrace: a trace of one process and one of two have the same devices and collectives, by axes, and the
// processes' files are one.
func TestTrace(t *testing.T) {
	line := strings.Fields(
		"trace --steps 2 --mesh dp=2 --zero 1 --dim 32 --layers 1 --heads 2 --seq 16 --batch 8 " +
			"--threads 1 -o",
	)
	calls := map[int]string{}
	for _, n := range []int{1, 2} {
		file := filepath.Join(t.TempDir(), "trace.json")
		args := append(line, file)
		if n > 1 {
			if _, err := mpi.Library(mpi.MPICH); err != nil {
				t.Skipf("MPICH is not installed: %v", err)
			}
			args = append(strings.Fields("launch -n 2 --"), args...)
		}
		out, err := galleyCommand(t, args...).CombinedOutput()
		if err != nil || strings.Count(string(out), "wrote ") != 1 {
			t.Fatalf("%d processes: got %v and %s", n, err, out)
		}
		words := strings.Fields(trafficLine.FindString(string(out)))
		if len(words) < 6 {
			t.Fatalf("%d processes: no reduce-scatter along dp in\n%s", n, out)
		}
		calls[n] = strings.Join(words[:len(words)-4], " ") // without the times
		devices := map[string]bool{}
		var events []struct {
			Name string
			Args map[string]any
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &events)
		}
		if err != nil {
			t.Fatal(err)
		}
		axes := false
		for _, e := range events {
			if e.Name == "process_name" {
				devices[e.Args["name"].(string)] = true
			}
			axes = axes || e.Name == "all_gather" && e.Args["axes"] == "dp" && e.Args["bytes"].(float64) > 0
		}
		if len(devices) != 2 || !devices["device 0"] || !devices["device 1"] || !axes {
			t.Errorf("%d processes: got devices %v, collectives with axes: %v", n, devices, axes)
		}
	}
	if calls[1] != calls[2] {
		t.Errorf("two processes: got %q, one had %q", calls[2], calls[1])
	}
}
