package galley_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/optim"
)

// onStep is a callback that is called after every step.
type onStep struct {
	fit.CallbackBase
	f func(p *fit.Progress) error
}

func (c onStep) OnStep(p *fit.Progress) error { return c.f(p) }

// stepsIn returns the steps of the checkpoints in a directory.
func stepsIn(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "step-*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i] = strings.TrimLeft(strings.TrimPrefix(filepath.Base(list[i]), "step-"), "0")
	}
	return list
}

// TestSaveGoesOn: a checkpoint that cannot be written is told of at once, tried again with a later state, and
// training continues.
func TestSaveGoesOn(t *testing.T) {
	dir := t.TempDir()
	var told []string
	hide := onStep{f: func(p *fit.Progress) error {
		// The directory is gone from the save after step 2 until step 6, as a network disk might be.
		switch p.Step {
		case 2:
			return os.Rename(dir, dir+"-away")
		case 6:
			return os.Rename(dir+"-away", dir)
		}
		return nil
	}}
	var log strings.Builder
	e := newEngine(t, nil, hide)
	h, err := e.Fit(t.Context(), windows(t), galley.FitConfig{Steps: 9, SaveDir: dir, SaveEvery: 2, Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range h.SaveErrors {
		told = append(told, err.Error())
	}
	if len(told) == 0 || !strings.Contains(told[0], "save of step 2") || !strings.Contains(log.String(),
		"not saved, going on") {
		t.Errorf("told %q\n%s", told, log.String())
	}
	if got := stepsIn(t, dir); !slices.Contains(got, "9") || len(h.Steps) != 9 {
		t.Errorf("checkpoints of %v after %d steps", got, len(h.Steps))
	}
}

// bookIDs returns a text of 40 kinds of tokens.
func bookIDs(n int) []int32 {
	ids := make([]int32, n)
	for k := range ids {
		ids[k] = int32((k*7 + k*k%11) % 40)
	}
	return ids
}

// TestLastStepIsSaved: whatever ends a fit, the last state is there, unless it is worth nothing.
func TestLastStepIsSaved(t *testing.T) {
	for _, x := range []struct {
		name string
		at   func(p *fit.Progress, cancel func()) error
		want []string
	}{
		{"all steps", nil, []string{"2", "4", "5"}},
		{"context", func(p *fit.Progress, cancel func()) error { cancel(); return nil }, []string{"2", "3"}},
		{"stop", func(*fit.Progress, func()) error { return fit.ErrStop }, []string{"2", "3"}},
		{"error", func(*fit.Progress, func()) error { return errors.New("no") }, []string{"2", "3"}},
		{"diverged", func(p *fit.Progress,
			_ func()) error {
			return &galley.DivergedError{Metrics: p.Metrics}
		}, []string{"2"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			e := newEngine(t, &galley.Strategy{DP: 2}, onStep{f: func(p *fit.Progress) error {
				if p.Step == 3 && x.at != nil {
					return x.at(p, cancel)
				}
				return nil
			}})
			dir := t.TempDir()
			_, err := e.Fit(ctx, windows(t), galley.FitConfig{Steps: 5, SaveDir: dir, SaveEvery: 2})
			if got := stepsIn(t, dir); !slices.Equal(got, x.want) {
				t.Errorf("checkpoints of %v, want %v (%v)", got, x.want, err)
			}
		})
	}
}

// TestResumeChecksTheRun: a checkpoint of another run is refused with both values, unless the change was
// said; old ones that say nothing are taken.
func TestResumeChecksTheRun(t *testing.T) {
	dir := t.TempDir()
	fit := func(c galley.FitConfig, lr float64, batch int, seed uint64) error {
		m := smallModel(t, device(t))
		e, err := galley.NewEngine(galley.EngineConfig{Model: galley.Language(m), Optimizer: optim.AdamW{},
			Schedule: optim.Constant{LR: lr}})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s, err := data.NewSampler(bookIDs(2000), data.SamplerConfig{Batch: batch, Seq: 16, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		c.SaveDir, c.Resume = dir, true
		_, err = e.Fit(t.Context(), data.Tokens(s), c)
		return err
	}
	if err := fit(galley.FitConfig{Steps: 2}, 1e-2, 4, 1); err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		`schedule is optim.Constant{"LR":0.02,"Warmup":0}, and was optim.Constant{"LR":0.01,"Warmup":0}`: fit(
			galley.FitConfig{Steps: 3}, 2e-2, 4, 1),
		"batch is 2, and was 4":                               fit(galley.FitConfig{Steps: 3}, 1e-2, 2, 1),
		"order is shuffled, seed 2, and was shuffled, seed 1": fit(galley.FitConfig{Steps: 3}, 1e-2, 4, 2),
		`no fact "rate"`: fit(galley.FitConfig{Steps: 3,
			Changed: []string{"rate"}}, 2e-2, 4, 1),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := fit(galley.FitConfig{Steps: 3, Changed: []string{"schedule"}}, 2e-2, 4, 1); err != nil {
		t.Error(err)
	}
	r, err := checkpoint.Open(dir, checkpoint.OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n, err := r.Meta().Counter("data"); err != nil || n != 12 || r.Meta().Sample != 12 {
		t.Errorf("the data's stream is at %d, %v, the next sample is %d: want 12", n, err, r.Meta().Sample)
	}
}

// TestResumeAtTheSample: with batches of another size a run continues with the sample that was next.
func TestResumeAtTheSample(t *testing.T) {
	dir := t.TempDir()
	run := func(batch, steps int, c galley.FitConfig) []int {
		var seen []int
		e, err := galley.NewEngine(galley.EngineConfig{Model: galley.Language(smallModel(t, device(t)))})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s, err := data.NewSampler(bookIDs(2000), data.SamplerConfig{Batch: batch, Seq: 16})
		if err != nil {
			t.Fatal(err)
		}
		c.SaveDir, c.Resume, c.Steps = dir, true, steps
		if _, err := e.Fit(t.Context(), &noting{data.Tokens(s), batch, &seen}, c); err != nil {
			t.Fatal(err)
		}
		return seen
	}
	run(4, 3, galley.FitConfig{})
	if got := run(2, 5, galley.FitConfig{Changed: []string{"batch"}}); !slices.Equal(got[len(got)-2:],
		[]int{12, 14}) {
		t.Errorf("went on with samples %v, want 12 and 14", got)
	}
}

// noting notes the first sample of each batch that is asked for.
type noting struct {
	*data.TokenLoader
	rows int
	seen *[]int
}

func (l *noting) Batch(i int) ([]array.Array, error) {
	*l.seen = append(*l.seen, i*l.rows)
	return l.TokenLoader.Batch(i)
}

// TestBestStays: the checkpoint with the least loss of an evaluation is kept, over runs, and a fit can
// continue from any step.
func TestBestStays(t *testing.T) {
	dir := t.TempDir()
	rates := []float64{1e-2, 5} // it learns, then it forgets
	best, step := math.Inf(1), 0
	for k, lr := range rates {
		e, err := galley.NewEngine(galley.EngineConfig{Model: galley.Language(smallModel(t, device(t))),
			Schedule: optim.Constant{LR: lr}, ClipNorm: 1})
		if err != nil {
			t.Fatal(err)
		}
		h, err := e.Fit(t.Context(), windows(t), galley.FitConfig{Steps: 4 + 4*k, SaveDir: dir,
			SaveEvery: 1, Keep: 2, Valid: windows(t), ValidEvery: 1,
			ValidBatches: 1, Resume: true, Changed: []string{"schedule"}})
		e.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range h.Evaluations {
			if v.Loss < best {
				best, step = v.Loss, v.Step
			}
		}
	}
	if got := stepsIn(t, dir); !slices.Contains(got, fmt.Sprint(step)) || len(got) != 3 || step >= 7 {
		t.Fatalf("checkpoints of %v, want the best, of step %d, besides two", got, step)
	}
	e := newEngine(t, nil)
	r, err := e.LoadFrom(dir, galley.ResumeConfig{Step: int64(step), Changed: []string{"all"}})
	if err != nil || r.Best != best {
		t.Errorf("loaded %+v, %v, want best %v", r, err, best)
	}
}
