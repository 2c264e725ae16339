package fit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/checkpoint"
)

// fake is a subject that reports what is asked of it.
type fake struct {
	steps  int
	sample int64
	told   []string
	// fails is the step whose metrics are an error.
	fails int
}

func (f *fake) say(format string, args ...any) { f.told = append(f.told, fmt.Sprintf(format, args...)) }

func (f *fake) Steps() int                  { return f.steps }
func (f *fake) Sample() int64               { return f.sample }
func (f *fake) SetSample(sample int64)      { f.sample = sample }
func (f *fake) Peers() checkpoint.Peers     { return nil }
func (f *fake) Agree(stop int) (int, error) { return stop, nil }
func (f *fake) Describe([]data.Fact)        {}
func (f *fake) Lost() error                 { return nil }

func (f *fake) Begin(batch []array.Array) (func() (fit.Metrics, error), error) {
	step := f.steps
	f.say("begin %d with %v", step+1, batch[0].At(0))
	f.steps++
	f.sample += int64(batch[0].Shape()[0])
	return func() (fit.Metrics, error) {
		f.say("wait %d", step+1)
		if step+1 == f.fails {
			return fit.Metrics{Step: step}, &fit.DivergedError{Metrics: fit.Metrics{Step: step}}
		}
		return fit.Metrics{Step: step}, nil
	}, nil
}

func (f *fake) Evaluate(context.Context, fit.Loader, int) (fit.Evaluation, error) {
	f.say("evaluate after %d", f.steps)
	return fit.Evaluation{Step: f.steps}, nil
}

func (f *fake) Resume(string, fit.ResumeConfig) (*fit.Resumed, error) {
	return nil, fit.ErrNoCheckpoint
}

func (f *fake) Write(context.Context, *checkpoint.Keeper, ...checkpoint.Scalar) error { return nil }

func (f *fake) State(...checkpoint.Scalar) (s checkpoint.State, err error) {
	s.Step = int64(f.Steps())
	return s, nil
}

// numbers are batches of two rows whose first value is their number.
type numbers int

func (n numbers) Len() int { return int(n) }
func (n numbers) Batch(i int) ([]array.Array, error) {
	return []array.Array{array.FromSlice([]float32{float32(i), 0}, 2)}, nil
}

// sampled are numbers by their first sample.
type sampled struct{ numbers }

func (sampled) Rows() int { return 2 }
func (s sampled) From(sample int64) ([]array.Array, error) { // pairs: a row for each of two answers
	return []array.Array{array.FromSlice([]float32{float32(sample), 0, 0, 0}, 4)}, nil
}

// teller is a callback that says what it is told.
type teller struct {
	fit.CallbackBase
	f    *fake
	stop int
}

func (t *teller) OnStep(p *fit.Progress) error {
	t.f.say("step %d", p.Step)
	if p.Step == t.stop {
		return fit.ErrStop
	}
	return nil
}
func (t *teller) OnEpochEnd(p *fit.Progress) error { t.f.say("epoch %d ends", p.Epoch+1); return nil }
func (t *teller) OnStepsEnd(*fit.Progress)         { t.f.say("no more steps") }

// TestOrder: in turn, a step is told of before the next begins; overlapped, after it has begun, but for what
// is due right after a step.
func TestOrder(t *testing.T) {
	for _, x := range []struct {
		overlap bool
		want    string
	}{
		{false, "begin 1 with 0, wait 1, step 1, begin 2 with 1, wait 2, step 2, evaluate after 2, begin 3 with " +
			"2, wait 3, step 3, " +
			"evaluate after 3, epoch 1 ends, no more steps"},
		{true, "begin 1 with 0, begin 2 with 1, wait 1, step 1, wait 2, step 2, evaluate after 2, begin 3 with " +
			"2, wait 3, step 3, " +
			"evaluate after 3, epoch 1 ends, no more steps"},
	} {
		f := &fake{}
		h, err := fit.Run(context.Background(), f, numbers(3), fit.Config{Valid: numbers(1), ValidEvery: 2,
			Overlap: x.overlap, Callbacks: []fit.Callback{&teller{f: f}}})
		if got := strings.Join(f.told, ", "); err != nil || got != x.want || len(h.Steps) != 3 {
			t.Errorf("overlap %v: %v, %d steps:\n got %s\nwant %s", x.overlap, err, len(h.Steps), got, x.want)
		}
	}
}

// TestEnds: a step that fails is told of once, a callback that stops ends the run well, and a cancelled one
// still reports the step that it had begun.
func TestEnds(t *testing.T) {
	f := &fake{fails: 2}
	h, err := fit.Run(context.Background(), f, numbers(5), fit.Config{Overlap: true})
	if _, ok := errors.AsType[*fit.DivergedError](err); !ok || strings.Contains(err.Error(), "\n") ||
		len(h.Steps) != 1 {
		t.Errorf("a step that diverges: %v after %d steps", err, len(h.Steps))
	}
	f = &fake{}
	h, err = fit.Run(context.Background(), f, numbers(5), fit.Config{Overlap: true,
		Callbacks: []fit.Callback{&teller{f: f, stop: 2}}})
	if err != nil || len(h.Steps) != 2 {
		t.Errorf("a callback that stops: %v after %d steps", err, len(h.Steps))
	}
	ctx, cancel := context.WithCancel(context.Background())
	f = &fake{}
	h, err = fit.Run(
		ctx,
		f,
		numbers(9),
		fit.Config{Overlap: true, Callbacks: []fit.Callback{&canceller{cancel: cancel}}},
	)
	if !errors.Is(err, context.Canceled) || len(h.Steps) != 4 || f.steps != 4 {
		t.Errorf("cancelled in step 3: %v after %d steps told of and %d taken", err, len(h.Steps), f.steps)
	}
}

type canceller struct {
	fit.CallbackBase
	cancel func()
}

func (c *canceller) OnStep(p *fit.Progress) error {
	if p.Step == 3 {
		c.cancel()
	}
	return nil
}

// TestSampled: batches continue with the next sample, whatever the batches before were.
func TestSampled(t *testing.T) {
	f := &fake{steps: 3, sample: 15}
	if _, err := fit.Run(context.Background(), f, sampled{4}, fit.Config{Steps: 2}); err != nil {
		t.Fatal(err)
	}
	if f.sample != 19 {
		t.Errorf("the next sample is %d, want 19", f.sample)
	}
	if want := []string{"begin 4 with 15", "wait 4", "begin 5 with 17", "wait 5"}; !slices.Equal(f.told, want) {
		t.Errorf("got %q, want %q", f.told, want)
	}
}
