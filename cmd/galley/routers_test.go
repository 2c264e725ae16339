package main

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// mixtureAt writes a small mixture of experts to a directory.
func mixtureAt(t *testing.T) string {
	t.Helper()
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	m, err := models.New(models.Config{Family: "mixtral", Vocab: 256, Hidden: 16, Intermediate: 16, Layers: 2,
		Heads: 2, KVHeads: 2, Experts: 4, ExpertsPerToken: 2},
		nn.Config{Scope: d.NewSession(), Seed: 1, DType: array.F32})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "mixture")
	if err := models.Save(dir, m, models.SaveConfig{}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestLogRouters: with --log-routers every step's row has the load of each expert, on one device and on two,
// with the same numbers, and a balance that the loads allow; without experts it is refused.
func TestLogRouters(t *testing.T) {
	notShort(t)
	t.Parallel()
	dir := mixtureAt(t)
	var first []float64
	for _, mesh := range []string{"", "dp=2"} {
		log := filepath.Join(t.TempDir(), "log.jsonl")
		args := []string{"train", "--model", dir, "--steps", "3", "--batch", "4", "--seq", "8", "--tokens", "0",
			"--threads", "1", "--log", log, "--log-routers", "1", "--expert-capacity", "1"}
		if mesh != "" {
			args = append(args, "--mesh", mesh, "--micro", "1")
		}
		if out, err := command(args...).Output(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		rows := routerRows(t, log)
		if len(rows) != 3 {
			t.Fatalf("%s: %d rows of steps with routers, want 3", mesh, len(rows))
		}
		var all []float64
		for _, r := range rows {
			sum := 0.0
			for _, layer := range r.Loads {
				for _, x := range layer {
					sum += x
				}
			}
			if len(r.Loads) != 2 || math.Abs(sum-2) > 1e-5 || !(r.Balance > 0) || !(r.Dropped >= 0) {
				t.Errorf("%s: %+v: want loads of two layers that sum to 1, a balance and what is dropped", mesh, r)
			}
			all = append(all, r.Busiest, r.Idlest, r.Dropped, r.Balance)
		}
		if first == nil {
			first = all
		}
		for i, x := range all {
			if math.Abs(x-first[i]) > 1e-5 {
				t.Errorf("%s: number %d: %v, on one device %v", mesh, i, x, first[i])
			}
		}
	}
	c := command("train", "--steps", "1", "--log-routers", "1", "--log", filepath.Join(t.TempDir(), "x.jsonl"))
	c.Stderr = nil
	if _, err := c.Output(); err == nil {
		t.Error("a model without experts: no error")
	}
}

type routerRow struct {
	Loss    float64     `json:"loss"`
	Busiest float64     `json:"router_busiest"`
	Idlest  float64     `json:"router_idlest"`
	Dropped float64     `json:"router_dropped"`
	Balance float64     `json:"router_balance"`
	Loads   [][]float64 `json:"router_loads"`
}

// routerRows returns the rows of steps that tell of routers.
func routerRows(t *testing.T, path string) (list []routerRow) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if !strings.Contains(s.Text(), `"grad_norm"`) || !strings.Contains(s.Text(), "router_loads") {
			continue
		}
		var r routerRow
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}
