package galley

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/galley-ml/galley/data"
)

// FitConfig says how long to train, and what happens on the way. The zero value is one epoch in silence.
type FitConfig struct {
	// Epochs is how often the data is gone through; 0 means 1. Steps, where set, is how many steps are taken in
	// place of whole epochs.
	Epochs, Steps int
	// Valid, where set, is evaluated every ValidEvery steps, 0 means after each epoch and at the end, on its
	// first ValidBatches; 0 means all.
	Valid                    Loader
	ValidEvery, ValidBatches int
	// SaveDir, where set, gets a checkpoint every SaveEvery steps, 0 means after each epoch, and at the end,
	// however it comes. The newest Keep stay, 0 means 3; so do those of steps that KeepEvery divides, where
	// set, and the one with the least loss of Valid. One that cannot be written is told of and tried again;
	// it does not end training.
	SaveDir                    string
	SaveEvery, Keep, KeepEvery int
	// Resume goes on from the newest good checkpoint of SaveDir, under this or any other strategy; where there
	// is none yet, training begins. Epochs and Steps then count from the very first step.
	Resume bool
	// From, where set, is the step of the checkpoint to resume from; later ones are removed.
	From int64
	// Changed is what may be other than in the run that wrote the checkpoint, by the names of facts.
	Changed []string
	// Prefetch is how many batches are made ahead of the step, in another goroutine, one at a time and never
	// during an evaluation; 0 means 2, less than 0 none.
	Prefetch int
	// Log, where set, gets a line every LogEvery steps; 0 means 10.
	Log      io.Writer
	LogEvery int
	// Callbacks are told what happens, after the engine's own.
	Callbacks []Callback
}

// fit is one run of Fit.
type fit struct {
	e     *Engine
	c     FitConfig
	train Loader
	calls []Callback
	dir   *Checkpoints
	saver *Saver
	// ahead is how far the number of a batch is ahead of its step's.
	ahead int
	next  *data.Ahead
	p     Progress
}

// Fit trains on the batches of a loader and returns what happened, also where it ends with an error. Batches
// follow the steps: a second Fit goes on where the first one ended.
func (e *Engine) Fit(ctx context.Context, train Loader, c FitConfig) (*History, error) {
	f := &fit{e: e, c: c, train: train, p: Progress{History: &History{}}}
	if err := f.check(); err != nil {
		return f.p.History, err
	}
	f.calls = append(f.calls, e.config.Callbacks...)
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

// check refuses what cannot be meant.
func (f *fit) check() error {
	c := f.c
	if _, err := countOf("fit", f.train, 0); err != nil {
		return err
	}
	for _, x := range []struct {
		name string
		n    int
	}{{"Epochs", c.Epochs}, {"Steps", c.Steps}, {"ValidEvery", c.ValidEvery}, {"ValidBatches",
		c.ValidBatches}, {"SaveEvery", c.SaveEvery}, {"Keep", c.Keep}, {"KeepEvery", c.KeepEvery},
		{"From", int(c.From)}, {"LogEvery", c.LogEvery}} {
		if x.n < 0 {
			return fmt.Errorf("fit: %s is %d: want 0 or more", x.name, x.n)
		}
	}
	if c.Epochs > 0 && c.Steps > 0 {
		return fmt.Errorf("fit: both Epochs and Steps say how long to train: leave one of them out")
	}
	if c.SaveDir == "" && (c.Resume || c.SaveEvery > 0 || c.KeepEvery > 0) {
		return fmt.Errorf("fit: Resume, SaveEvery and KeepEvery need SaveDir: say where checkpoints are")
	}
	if !c.Resume && (c.From > 0 || len(c.Changed) > 0) {
		return fmt.Errorf("fit: From and Changed are for Resume")
	}
	return nil
}

func (f *fit) run(ctx context.Context) (err error) {
	start := f.e.trainer.Steps()
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
	p.Step, p.Epochs = f.e.trainer.Steps(), (p.Steps+n-1)/n
	f.next = data.NewAhead(f.train.Batch, data.AheadConfig{First: p.Step + f.ahead,
		Count: max(p.Steps-p.Step, 0), Depth: f.c.Prefetch})
	defer func() {
		f.next.Close()
		err = f.end(ctx, err)
	}()
	if err := f.tell(Callback.OnBegin); err != nil {
		return err
	}
	for p.Step < p.Steps {
		if err := f.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// step takes one step, and what is due after it.
func (f *fit) step(ctx context.Context) error {
	if err := f.agree(ctx.Err()); err != nil {
		return err
	}
	n, p := f.train.Len(), &f.p
	p.Epoch = p.Step / n
	if p.Step%n == 0 {
		if err := f.tell(Callback.OnEpochBegin); err != nil {
			return err
		}
	}
	batch, waited, err := f.next.Next()
	if err != nil {
		return fmt.Errorf("fit: batch %d: %w", p.Step, err)
	}
	p.Metrics, err = f.e.step(batch)
	p.Metrics.Wait = waited
	if err != nil {
		return err
	}
	p.Step = f.e.trainer.Steps()
	p.History.Steps = append(p.History.Steps, p.Metrics)
	if err := f.tell(Callback.OnStep); err != nil {
		return err
	}
	if err := f.evaluate(ctx); err != nil {
		return err
	}
	if err := f.save(ctx); err != nil {
		return err
	}
	if p.Step%n == 0 {
		return f.tell(Callback.OnEpochEnd)
	}
	return nil
}

// due reports whether something that is done every few steps, or after each epoch, is.
func (f *fit) due(every int) bool {
	if every == 0 {
		every = f.train.Len()
	}
	return f.p.Step%every == 0 || f.p.Step == f.p.Steps
}

func (f *fit) evaluate(ctx context.Context) error {
	if f.c.Valid == nil || !f.due(f.c.ValidEvery) {
		return nil
	}
	var err error
	f.next.Alone(func() { f.p.Evaluation, err = f.e.Evaluate(ctx, f.c.Valid, f.c.ValidBatches) })
	if err != nil {
		return err
	}
	f.p.History.Evaluations = append(f.p.History.Evaluations, f.p.Evaluation)
	if f.saver != nil && f.saver.Evaluated(f.p.Evaluation.Loss) {
		if err := f.told(f.saver.Save(ctx, f.e.sample)); err != nil {
			return err
		}
	}
	return f.tell(Callback.OnEvaluate)
}

// tell calls a method of all callbacks.
func (f *fit) tell(method func(Callback, *Progress) error) error {
	for _, c := range f.calls {
		if err := method(c, &f.p); err != nil {
			return f.agree(err)
		}
	}
	return f.agree(nil)
}

// agree is an error in all processes of a job if there is one in any: its own, or that another has stopped.
func (f *fit) agree(err error) error {
	stop := 0
	switch {
	case errors.Is(err, ErrStop):
		stop = 1
	case err != nil:
		stop = 2
	}
	all, failed := f.e.config.Job.Max(stop)
	switch {
	case err != nil:
		return err
	case failed != nil:
		return failed
	case all == 1:
		return ErrStop
	case all == 2:
		return fmt.Errorf("fit: another process of the job has ended it")
	}
	return nil
}

// end saves what is to be kept and tells callbacks of the end. What ended the fit comes first.
func (f *fit) end(ctx context.Context, err error) error {
	saved := f.finish(ctx, err)
	if errors.Is(err, ErrStop) {
		err = nil
	}
	f.p.Err = err
	told := f.tell(Callback.OnEnd)
	if err != nil || errors.Is(told, ErrStop) {
		told = nil
	}
	return errors.Join(err, saved, told)
}
