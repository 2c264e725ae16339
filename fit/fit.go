package fit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/internal/checkpoint"
)

// fit is the state of one Run.
type fit struct {
	t      Subject
	c      Config
	train  Loader
	calls  []Callback
	keeper *checkpoint.Keeper
	saver  *saver
	// ahead is the index of a batch minus that of its step.
	ahead int
	next  *data.Ahead
	p     Progress
	// sample is the next sample, rows the number of samples per batch, if the loader knows them; else 0.
	sample, rows int64
	// wait waits for the last step; it is nil once the step's metrics have been reported. waited is how long
	// its batch took.
	wait   func() (Metrics, error)
	waited time.Duration
}

// Run trains on the batches of a loader and returns the history, even if it ends with an error. A second run
// of the same subject continues where the first one ended. first are callbacks that are called before those
// of the config.
func Run(ctx context.Context, t Subject, train Loader, c Config, first ...Callback) (*History, error) {
	f := &fit{t: t, c: c, train: train, calls: first[:len(first):len(first)], p: Progress{History: &History{}}}
	if err := c.check(train); err != nil {
		return f.p.History, err
	}
	if c.Log != nil {
		f.calls = append(f.calls, &Logger{W: c.Log, Every: c.LogEvery})
	}
	f.calls = append(f.calls, c.Callbacks...)
	err := f.run(ctx)
	if errors.Is(err, ErrStop) {
		err = nil
	}
	return f.p.History, err
}

func (f *fit) run(ctx context.Context) (err error) {
	start := f.t.Steps()
	if err := f.open(); err != nil {
		return err
	}
	if f.c.Resume {
		start = 0
	}
	n, p := f.train.Len(), &f.p
	p.Steps = start + f.c.Steps
	if f.c.Steps == 0 {
		p.Steps = start + max(f.c.Epochs, 1)*n
	}
	p.Step, p.Epochs = f.t.Steps(), (p.Steps+n-1)/n
	f.next = f.batches()
	defer func() {
		f.next.Close()
		err = f.end(ctx, err)
	}()
	if err := f.notify(Callback.OnBegin); err != nil {
		return err
	}
	for f.t.Steps() < p.Steps {
		if err := f.step(ctx); err != nil {
			return f.broken(ctx, err)
		}
	}
	return nil
}

// broken returns the error that ended the steps, joined with that of the step in progress.
func (f *fit) broken(ctx context.Context, err error) error {
	last := f.awaitStep()
	switch {
	case last == nil || errors.Is(last, ErrStop):
		return err
	case errors.Is(err, ErrStop) || err == ctx.Err():
		return last
	}
	return errors.Join(last, err)
}

// batches prepares the batches of the remaining steps ahead of time.
func (f *fit) batches() *data.Ahead {
	c := data.AheadConfig{First: f.p.Step + f.ahead, Count: max(f.p.Steps-f.p.Step, 0), Depth: f.c.Prefetch}
	batch, part := f.train.Batch, partFunc(nil)
	if l, ok := f.train.(Parted); ok {
		part = l.Part
	}
	if l, ok := f.train.(Sampled); ok {
		f.sample, f.rows = f.t.Sample(), int64(l.Rows())
		if f.sample == 0 {
			f.sample = int64(f.p.Step) * f.rows
		}
		first, rows := f.sample, f.rows
		c.First = 0
		batch = func(i int) ([]array.Array, error) { return l.From(first + int64(i)*rows) }
		part = nil
		if l, ok := f.train.(PartedFrom); ok {
			part = func(i int, own func(int) bool) ([]array.Array, error) {
				return l.PartFrom(first+int64(i)*rows, own)
			}
		}
	}
	return data.NewAhead(f.ownRows(batch, part, c), c)
}

// step takes one step, then evaluates and saves if due.
func (f *fit) step(ctx context.Context) error {
	if err := f.agree(ctx.Err()); err != nil {
		return err
	}
	n, at := f.train.Len(), f.t.Steps()
	if at%n == 0 {
		f.p.Epoch = at / n
		if err := f.notify(Callback.OnEpochBegin); err != nil {
			return err
		}
	}
	if err := f.begin(at); err != nil {
		return err
	}
	if at++; f.c.Overlap && at%n != 0 && !f.due(at, f.c.ValidEvery) && (f.saver == nil || !f.saver.due()) &&
		!f.stateDue(at) {
		return nil
	}
	if err := f.awaitStep(); err != nil {
		return err
	}
	if err := f.showState(at); err != nil {
		return err
	}
	if err := f.evaluate(ctx); err != nil {
		return err
	}
	if err := f.save(ctx); err != nil {
		return err
	}
	if at%n == 0 {
		return f.notify(Callback.OnEpochEnd)
	}
	return nil
}

// begin starts a step and reports the one before it.
func (f *fit) begin(at int) error {
	batch, waited, err := f.next.Next()
	if err != nil {
		return fmt.Errorf("fit: batch %d: %w", at, err)
	}
	for _, c := range f.calls {
		if x, ok := c.(BatchWatcher); ok {
			if err := x.OnBatch(&f.p, batch); err != nil {
				return err
			}
		}
	}
	wait, err := f.t.Begin(batch)
	if err != nil {
		return err
	}
	if f.rows > 0 {
		f.sample += f.rows
		f.t.SetSample(f.sample)
	}
	if err := f.awaitStep(); err != nil {
		return err // the new step's metrics are not read any more
	}
	f.wait, f.waited = wait, waited
	return nil
}

// awaitStep waits for the step in progress and reports it.
func (f *fit) awaitStep() error {
	if f.wait == nil {
		return nil
	}
	wait, p := f.wait, &f.p
	f.wait = nil
	var err error
	p.Metrics, err = wait()
	p.Metrics.Wait = f.waited
	if err != nil {
		return err
	}
	p.Step, p.Epoch = p.Metrics.Step+1, p.Metrics.Step/f.train.Len()
	p.History.Steps = append(p.History.Steps, p.Metrics)
	return f.notify(Callback.OnStep)
}

// due reports whether something that happens every few steps, or after each epoch, is due.
func (f *fit) due(step, every int) bool {
	if every == 0 {
		every = f.train.Len()
	}
	return step%every == 0 || step == f.p.Steps
}

func (f *fit) evaluate(ctx context.Context) error {
	if f.c.Valid == nil || !f.due(f.p.Step, f.c.ValidEvery) {
		return nil
	}
	var err error
	f.next.Alone(func() { f.p.Evaluation, err = f.t.Evaluate(ctx, f.c.Valid, f.c.ValidBatches) })
	if err != nil {
		return err
	}
	f.p.History.Evaluations = append(f.p.History.Evaluations, f.p.Evaluation)
	if f.saver != nil && f.saver.evaluated(f.p.Evaluation.Loss) {
		if err := f.notifySave(f.saver.save(ctx)); err != nil {
			return err
		}
	}
	return f.notify(Callback.OnEvaluate)
}

// notify calls a method of all callbacks.
func (f *fit) notify(method func(Callback, *Progress) error) error {
	for _, c := range f.calls {
		if err := method(c, &f.p); err != nil {
			return f.agree(err)
		}
	}
	return f.agree(nil)
}

// agree returns an error in all processes of a job if any of them has one.
func (f *fit) agree(err error) error {
	stop := 0
	switch {
	case errors.Is(err, ErrStop):
		stop = 1
	case err != nil:
		stop = 2
	}
	all, failed := f.t.Agree(stop)
	switch {
	case err != nil:
		return err
	case failed != nil:
		return failed
	case all == 1:
		return ErrStop
	case all == 2:
		return errors.New("fit: another process of the job has ended it")
	}
	return nil
}

// end saves the final state and calls OnEnd. It returns the error that ended the fit before others.
func (f *fit) end(ctx context.Context, err error) error {
	for _, c := range f.calls {
		if x, ok := c.(StepsWatcher); ok {
			x.OnStepsEnd(&f.p)
		}
	}
	saved := f.finish(ctx, err)
	if errors.Is(err, ErrStop) {
		err = nil
	}
	f.p.Err = err
	told := f.notify(Callback.OnEnd)
	if err != nil || errors.Is(told, ErrStop) {
		told = nil
	}
	return errors.Join(err, saved, told)
}
