package galley_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/job"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// sampled is a dataset that counts how often it is asked for a sample.
type sampled struct {
	data.Dataset
	times *atomic.Int64
}

func (a sampled) Sample(i int) []array.Array {
	a.times.Add(1)
	return a.Dataset.Sample(i)
}

// TestProcessesOwnRows: a process makes the rows of a batch that its devices read and no others, and trains
// as one process does.
func TestProcessesOwnRows(t *testing.T) {
	const steps, batch = 3, 8
	for _, c := range []struct {
		name     string
		strategy galley.Strategy
		rows     int64 // of a batch, in each of two processes
	}{
		{"dp", galley.Strategy{DP: 2}, 4},
		{"dp micro", galley.Strategy{DP: 2, TP: 2, Micro: 2, Zero: 1}, 4},
		{"pp", galley.Strategy{PP: 2, Micro: 2}, 8},
		{"cp", galley.Strategy{CP: 2}, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, _, err := fittedRows(nil, c.strategy, steps, batch)
			if err != nil {
				t.Fatal(err)
			}
			errs := inJob(2, func(j *job.Job) error {
				got, times, err := fittedRows(j, c.strategy, steps, batch)
				for i := range got {
					if got[i].Loss != want[i].Loss || got[i].GradNorm != want[i].GradNorm {
						t.Errorf("step %d: got %+v, want %+v", i, got[i], want[i])
					}
				}
				// One batch is whole, to know its types, and facts of the data are told by three samples.
				if most := steps*c.rows + batch + 3; times > most {
					t.Errorf("process %d asked for %d samples, want at most %d", j.Rank(), times, most)
				}
				return err
			})
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// fittedRows fits a model to samples, and returns the steps and how many samples were asked for.
func fittedRows(j *job.Job, s galley.Strategy, steps, batch int) ([]galley.Metrics, int64, error) {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	m, err := models.New(models.Config{Family: "llama", Vocab: 23, Hidden: 16, Intermediate: 24, Layers: 2,
		Heads:   4,
		KVHeads: 4, Positions: 32, InitStd: 0.3}, nn.Config{Scope: d.NewSession(), Seed: 3})
	if err != nil {
		return nil, 0, err
	}
	e, err := galley.NewEngine(galley.EngineConfig{Model: galley.Language(m), Job: j, Seed: 3, Strategy: &s})
	if err != nil {
		return nil, 0, err
	}
	defer e.Close()
	x, y := array.New(array.I32, 64, 12), array.New(array.I32, 64, 12)
	for i := range array.Data[int32](x) {
		array.Data[int32](x)[i] = int32(i*i%22 + 1)
		array.Data[int32](y)[i] = int32((i+1)*(i+1)%22 + 1)
	}
	rows, err := data.Rows(x, y)
	if err != nil {
		return nil, 0, err
	}
	var times atomic.Int64
	loader, err := data.NewLoader(sampled{rows, &times}, data.LoaderConfig{Batch: batch, Seed: 1})
	if err != nil {
		return nil, 0, err
	}
	h, err := e.Fit(context.Background(), loader, galley.FitConfig{Steps: steps})
	return h.Steps, times.Load(), err
}
