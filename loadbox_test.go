package galley_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// TestLoadByBox: the devices of a strategy read what they hold of a model's files and no more, and train as
// from a model that was read whole.
func TestLoadByBox(t *testing.T) {
	for _, config := range []models.Config{
		{Family: "llama", Vocab: 24, Hidden: 16, Intermediate: 24, Layers: 2, Heads: 4, InitStd: 0.2},
		{Family: "mixtral", Vocab: 24, Hidden: 16, Intermediate: 12, Layers: 2, Heads: 4, Experts: 4,
			ExpertsPerToken: 2,
			InitStd:         0.2},
	} {
		d := galley.CPU(galley.Config{Threads: 1})
		t.Cleanup(d.Close)
		m, err := models.New(config, nn.Config{Scope: d.NewSession(), Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := models.Save(dir, m, models.SaveConfig{ShardBytes: 2000}); err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, p := range m.Params() {
			size += p.Type.Bytes()
		}
		for _, s := range []*galley.Strategy{nil, {DP: 4, Zero: 3}, {TP: 4}, {DP: 2, TP: 2, Zero: 3},
			{PP: 2, Micro: 2}, {DP: 2, EP: 2},
			{DP: 2, AMP: "bf16"}} {
			if s != nil && s.EP > 1 && config.Experts == 0 {
				continue
			}
			t.Run(fmt.Sprint(config.Family, s), func(t *testing.T) {
				want, _ := boxLosses(t, d, dir, s, false)
				got, read := boxLosses(t, d, dir, s, true)
				sameNumbers(t, got, want, 0)
				if s == nil || s.AMP != "" { // with master weights each is read twice
					return
				}
				if s.Zero == 3 && s.TP < 2 && read != int64(size) {
					t.Errorf("%d bytes are read, of a model of %d: want each once", read, size)
				}
				if read > 2*int64(size) && config.Family == "llama" {
					t.Errorf("%d bytes are read, of a model of %d: want less than twice", read, size)
				}
			})
		}
	}
}

// boxLosses trains a model of a directory, read whole or by boxes, and is also how many bytes were read.
func boxLosses(t *testing.T, d *galley.Device, dir string, s *galley.Strategy,
	byBox bool) ([]float64, int64) {
	t.Helper()
	c := galley.TrainerConfig{Device: d, Strategy: s, Optimizer: optim.AdamW{},
		Schedule: optim.Constant{LR: 1e-2}}
	var read atomic.Int64
	var m models.Model
	var err error
	if byBox {
		w, err := models.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		m = w.Model
		c.Load = func(p *nn.Param, box mesh.Box, dst array.Array) error {
			read.Add(int64(len(dst.Bytes())))
			return w.ReadBox(p, box, dst)
		}
	} else if m, err = models.Load(dir, nn.Config{Scope: d.NewSession()}); err != nil {
		t.Fatal(err)
	}
	own := m
	if s != nil {
		if own, _, err = galley.Arrange(m, *s, 6); err != nil {
			t.Fatal(err)
		}
	}
	c.Params = m.Params()
	c.Loss = func(b []*op.Tensor) *op.Tensor { return own.Loss(b[0], b[1]) }
	tr, err := galley.NewTrainer(c)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	return optimizerSteps(t, tr, 2), read.Load()
}
