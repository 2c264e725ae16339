package dryrun_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/dryrun"
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/search"
)

// TestFind: a plan whose tapes take more than the devices have is left out, and the next that fits is taken.
// The model has many more words than the workload that is searched for, so that the estimate is too low.
func TestFind(t *testing.T) {
	m, err := plan.ModelPreset("gpt3-125m")
	if err != nil {
		t.Fatal(err)
	}
	m.Layers, m.Vocab = 2, 512
	find := func(vocab int, memory string) (*dryrun.Found, error) {
		hw, err := cluster.Parse("1x2 A100-SXM-40GB mem=" + memory)
		if err != nil {
			t.Fatal(err)
		}
		w := plan.Workload{Model: m, Batch: 16, Seq: 1024, Precision: "bf16"}
		config, err := forecast.ConfigOf(m)
		if err != nil {
			t.Fatal(err)
		}
		config.Vocab = vocab
		return dryrun.Find(dryrun.FindConfig{Config: search.Config{Workload: w, Cluster: hw, Top: 1},
			Calibration: plan.Default(hw, w), Model: config, Tapes: true})
	}
	for _, c := range []struct {
		vocab  int
		memory string
		left   bool
		err    string
	}{{512, "3GB", false, ""}, {131072, "3GB", true, ""}, {1 << 20, "3GB", true, "nothing fits: of "}} {
		f, err := find(c.vocab, c.memory)
		if err != nil || c.err != "" {
			if err == nil || c.err == "" || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%d words: got %v, want %q", c.vocab, err, c.err)
			}
			continue
		}
		if len(f.Left) > 0 != c.left {
			t.Errorf("%d words: left out %v", c.vocab, f.Left)
		}
		if over, err := dryrun.Over(f.File); err != nil || over != "" || len(f.File.Predicted.Devices) != 2 {
			t.Errorf("%d words: got %q, %v, want a plan that fits", c.vocab, over, err)
		}
	}
}
