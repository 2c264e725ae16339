package runs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// TestRuns says that predictions of sources that nothing was fitted to stay as good as they are.
func TestRuns(t *testing.T) {
	rows, err := readRuns("testdata/runs.json")
	if err != nil {
		t.Fatal(err)
	}
	table := &runTable{cal: plan.Published()}
	table.read(rows)
	want := map[string]struct {
		used int
		mape float64
	}{
		"korthikanti": {10, 0.06}, "sc21": {10, 0.09}, "vtrain": {14, 0.09}, "simumax": {4, 0.12}, "bigscience": {4,
			0.3}, "amp": {4, 0.5},
		"mbridge": {1, 0.5}, "nemo": {1, 0.1}, "maxtext": {1, 0.25},
	}
	for _, s := range table.sources {
		w, ok := want[s.name]
		if !ok {
			continue
		}
		if len(s.cases) != w.used {
			t.Errorf("%s: %d rows used, want %d: %v", s.name, len(s.cases), w.used, s.unused)
		}
		if s.held.mape > w.mape {
			t.Errorf("%s: off by %.1f%% on average, want at most %.1f%%", s.name, 100*s.held.mape, 100*w.mape)
		}
		if slices.ContainsFunc(table.others(s), func(o plan.Residual) bool { return o.Source == s.name }) {
			t.Errorf("%s is predicted from itself", s.name)
		}
	}
	// Tensor parallelism that leaves the host is as slow as it was.
	for _, c := range table.source("vtrain").cases {
		if off := c.got.Step/c.step - 1; c.strategy.TP > 8 && (off < -0.15 || off > 0.15) {
			t.Errorf("%s: off by %+.1f%%, want at most 15%%", c.row.ID, 100*off)
		}
	}
	for name, w := range map[string]struct {
		rows int
		mape float64
	}{"simumax": {4, 0.03}, "torchtitan": {3, 0.04}, "internevo": {4, 0.04}, "bigscience": {3, 0.1}} {
		m := table.source(name).held
		if m.memN != w.rows || m.memMAPE > w.mape {
			t.Errorf("%s: memory off by %.1f%% in %d rows, want at most %.0f%% in %d", name, 100*m.memMAPE, m.memN,
				100*w.mape, w.rows)
		}
	}
	for _, name := range []string{"bigscience", "amp"} {
		if o := table.source(name).held.oom; o[0][1]+o[1][0] > 0 || o[1][1] == 0 {
			t.Errorf("%s: verdicts %v: want all of them right, and a failure", name, o)
		}
	}
}

func TestRunsPrints(t *testing.T) {
	var out strings.Builder
	r, err := Compare(&out, "testdata/runs.json", Config{Verbose: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mbridge: 1 of 1 rows used\n  assumed: latent attention of deepseek-v3",
		"recompute none", "time from TFLOP/s", "korthikanti-t5-1T-selective", "source left out", "rows predicted",
		"at most 12.0% wanted: ",
		"others' factors make worse, none wanted: ", "at least 85.0% wanted: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if r.Failed() != 0 || r.Passed() < 40 {
		t.Errorf("%d passed, %d failed", r.Passed(), r.Failed())
	}
}

// TestRunsSwap says what tau and regret are: two strategies of three in the wrong order.
func TestRunsSwap(t *testing.T) {
	var cases []*runCase
	for i, c := range []struct{ measured, predicted float64 }{{1, 2}, {2, 1}, {3, 3}} {
		cases = append(cases, &runCase{row: &runRow{}, cluster: eightDevices(t), strategy: strategy.Strategy{DP: 8,
			MicroBatch: i + 1}, step: c.measured, got: plan.Estimate{Step: c.predicted}})
	}
	s := score(cases)
	if s.pairs != 3 || s.agree != 1 || s.regret != 1 {
		t.Errorf("got %d of %d pairs, regret %g: want 1 of 3 and 1", s.agree, s.pairs, s.regret)
	}
}

func eightDevices(t *testing.T) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Parse("8 A100")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRunsMistakes(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"[{]":                                    ":1:3:",
		"[\n {\"id\": 3}\n]":                     ":2:",
		"nothing":                                "invalid character",
		"[{\"model\": {\"layers\":\n \"ten\"}}]": ":2:",
	} {
		path := filepath.Join(dir, "runs.json")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Compare(&strings.Builder{}, path, Config{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// FuzzRunRow says that no row makes a prediction panic.
func FuzzRunRow(f *testing.F) {
	rows, err := os.ReadFile("testdata/runs.json")
	if err != nil {
		f.Fatal(err)
	}
	var each []json.RawMessage
	if err := json.Unmarshal(rows, &each); err != nil {
		f.Fatal(err)
	}
	for _, r := range each[:20] {
		f.Add([]byte(r))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r runRow
		if r.read(text) != nil {
			return
		}
		c, err := newRunCase(&r)
		if err != nil || c.cluster.Size() > 1<<16 || c.workload.Seq > 1<<20 {
			return
		}
		c.estimate(plan.Published())
	})
}
