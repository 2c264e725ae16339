package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/elastic/worker"
	"github.com/galley-ml/galley/nn"
)

// loop is the command's callback in the library's training loop: it prints and logs steps and watches for
// signals and hangs.
type loop struct {
	fit.CallbackBase
	*training
	trainer *galley.Trainer
	signals *interrupts
	p       *progress
	log     *runLog
	// began says that checkpoints are open and steps may begin; at is when the last step ended.
	began bool
	at    time.Time
	// longest is the longest time of a step, in nanoseconds; done the number of steps taken.
	longest, done atomic.Int64
	// interrupted says that a signal ended the steps.
	interrupted bool
	// routers is the forward pass of --log-routers, and shares its result for the current step.
	routers *galley.Forward
	shares  *fit.RouterLog
	elasticLoop
}

// train takes all steps, or those until a signal arrives, and leaves the trained parameters in the
// model.
func (t *training) train() error {
	for {
		moves, err := t.trainPlan()
		if err != nil {
			return err
		}
		if !moves {
			break
		}
	}
	if s := t.d.NewSession(); job.First() {
		for i, a := range t.averages {
			t.model.Params()[i].Value = s.Tensor(a).Track()
		}
	}
	return nil
}

// trainPlan takes steps with one plan; moves means that another plan continues from its checkpoint.
func (t *training) trainPlan() (moves bool, err error) {
	trainer, err := t.newTrainer()
	if err != nil {
		return false, err
	}
	defer trainer.Close()
	l := &loop{training: t, trainer: trainer, log: &runLog{}}
	l.signals = catchSignals(func() time.Duration { return time.Duration(l.longest.Load()) }, l.busy)
	defer l.signals.stop()
	defer l.watch(t.Watchdog, os.Stderr)()
	defer func() { l.log.close() }()
	c, err := l.config()
	if err != nil {
		return false, err
	}
	l.elasticConfig(&c)
	_, err = trainer.Fit(context.Background(), runBatches{t.text, t.Batch, t.Steps}, c)
	if err == nil {
		err = l.logTraffic()
	}
	if err == nil && t.adapt.handOver() {
		return true, nil
	}
	return false, l.ended(err)
}

// besides are callbacks that tests add.
var besides []fit.Callback

// config returns the run's configuration for the library's training loop.
func (l *loop) config() (galley.FitConfig, error) {
	c := galley.FitConfig{
		Steps:        max(0, l.Steps-l.trainer.Steps()),
		ValidEvery:   l.ValidEvery,
		ValidBatches: evalBatches,
		Overlap:      true,
		Callbacks:    append([]fit.Callback{l}, besides...),
	}
	if l.eval != nil {
		c.Valid = runBatches{l.eval, l.Batch, evalBatches}
	}
	if l.Checkpoint == "" {
		return c, nil
	}
	from, err := l.fromStep()
	if err != nil {
		return c, fmt.Errorf("--checkpoint: %w", err)
	}
	if l.next != nil {
		from = 0 // the newest: where the previous plan ended
	}
	c.Steps, c.SaveDir, c.SaveEvery, c.Keep, c.KeepEvery = l.Steps, l.Checkpoint, l.Every, l.Keep, l.KeepEvery
	c.Resume, c.From, c.Changed = true, from, l.Changed
	return c, nil
}

// ended returns the error of a run in terms of the command's flags.
func (l *loop) ended(err error) error {
	if !l.began && err != nil {
		return l.notBegun(err)
	}
	if _, ok := errors.AsType[*galley.DivergedError](err); ok {
		return l.diverged(err)
	}
	if err != nil {
		return err
	}
	if s := l.signals.signal(); s != 0 && (l.interrupted || job == nil) {
		l.stopped = &stoppedError{s, l.trainer.Steps()}
	}
	if job.Size() > 1 {
		return l.gather()
	}
	if err = l.trainer.Sync(l.d.NewSession()); err == nil && l.EMA > 0 {
		l.averages, err = l.trainer.Averaged()
	}
	return err
}

// gather saves the model of a job, one parameter at a time. The first process gets the whole model only if it
// generates text with it.
func (l *loop) gather() error {
	each := l.trainer.ReadParams
	if l.EMA > 0 {
		averages, err := l.trainer.Averaged()
		if err != nil {
			return err
		}
		l.averages = averages
		each = func(f func(p *nn.Param, value array.Array) error) error {
			for i, p := range l.model.Params() {
				if err := f(p, averages[i]); err != nil || !job.First() {
					return err
				}
			}
			return nil
		}
	}
	if err := l.saveEach(each); err != nil {
		return err
	}
	if l.Tokens == 0 {
		return nil
	}
	return l.trainer.Sync(l.d.NewSession())
}

// runBatches is a loader of a run's batches, count of them, each by the number of its first sample.
type runBatches struct {
	batches
	rows, count int
}

func (b runBatches) Len() int           { return b.count }
func (b runBatches) Rows() int          { return b.rows }
func (b runBatches) Facts() []data.Fact { return nil } // the trainer adds them
func (b runBatches) Batch(i int) ([]array.Array, error) {
	return batchFrom(b.batches, int64(i)*int64(b.rows))
}

// From returns the batch that begins with a sample.
func (b runBatches) From(sample int64) ([]array.Array, error) { return batchFrom(b.batches, sample) }

// PartFrom is like From, with only the rows of this process if the batches can be made so.
func (b runBatches) PartFrom(sample int64, own func(row int) bool) ([]array.Array, error) {
	switch x := b.batches.(type) {
	case *data.Mixture:
		return x.Part(sample, own)
	case windowBatches:
		return []array.Array{x.Part(sample, own)}, nil
	}
	return batchFrom(b.batches, sample)
}

// OnBegin prints where the run resumes, and opens the files that are written besides checkpoints.
func (l *loop) OnBegin(p *fit.Progress) (err error) {
	l.began = true
	if err := l.checkRouters(); err != nil {
		return err
	}
	l.printResumed(p.Resumed)
	if l.Checkpoint != "" && job.First() {
		if err := l.keepModel(); err != nil {
			return err
		}
	}
	logs := l.Log
	if !job.First() {
		logs = nil
	}
	if l.log, err = openLogs(logs, l.trainer.Steps()); err != nil {
		l.log = &runLog{}
		return err
	}
	if err := l.logEpoch(); err != nil {
		return err
	}
	l.p = newProgress(l.trainer.Steps(), l.Steps, l.Batch*l.Seq)
	l.at = time.Now()
	return nil
}

// OnBatch ends the run before a step if a signal has arrived, and prints when a new program is compiled.
func (l *loop) OnBatch(_ *fit.Progress, batch []array.Array) error {
	stop, err := job.Max(int(l.signals.signal())) // all processes stop after the same step
	if err != nil {
		return err
	}
	if stop != 0 {
		l.interrupted = true
		l.signals.agreed(syscall.Signal(stop))
		return fit.ErrStop
	}
	moves, err := l.adapt.before(l.trainer.Steps())
	if err != nil {
		return err
	}
	if moves {
		return fit.ErrStop
	}
	if err := l.agreeHandOn(); err != nil {
		return err
	}
	l.traffic.begin(l.trainer.Steps())
	l.printProgram(batch)
	if l.LogSamples {
		l.printSamples(batch)
	}
	begin := time.Now()
	l.shares, err = l.ofStep(batch)
	l.at = l.at.Add(time.Since(begin)) // the time of the routers' pass is no part of the step
	return err
}

// OnStep prints a step and logs it.
func (l *loop) OnStep(p *fit.Progress) error {
	took := time.Since(l.at)
	l.longest.Store(max(l.longest.Load(), int64(took)))
	l.done.Add(1)
	l.at = time.Now()
	m := p.Metrics
	l.reportStep(m, took)
	if l.LogLosses {
		l.p.finish()
		fmt.Printf("step %d loss %.17g norm %.17g\n", m.Step+1, m.Loss, m.GradNorm)
	}
	l.p.step(m)
	row := fit.NewLogRow(m)
	row.Tokens, row.Seconds = int64(m.Step+1)*int64(l.Batch*l.Seq), l.p.seconds()
	row.Routers = l.shares
	row.Collectives = l.traffic.take(m.Step)
	return l.log.write(row)
}

// OnEvaluate prints the loss on held-out text.
func (l *loop) OnEvaluate(p *fit.Progress) error {
	l.at = time.Now()
	loss := p.Evaluation.Loss
	l.p.finish()
	switch last := p.Step == p.Steps; {
	case last && l.loss != nil: // it is not a loss of tokens
		fmt.Printf("loss on held-out data %.4f\n", loss)
	case last:
		fmt.Printf("loss on held-out text %.4f, perplexity %.2f\n", loss, math.Exp(loss))
	default:
		fmt.Printf("step %d/%d  loss on held-out text %.4f\n", p.Step, p.Steps, loss)
	}
	routers, err := l.measureRouters()
	if err != nil {
		return err
	}
	l.at = time.Now()
	nan := math.NaN()
	return l.log.write(fit.LogRow{Step: p.Step, Loss: nan, GradNorm: nan, LR: nan, ValidLoss: loss,
		Seconds: l.p.seconds(), DataWaitSeconds: nan, Routers: routers})
}

// OnSave excludes the time of writing a checkpoint from that of the next step.
func (l *loop) OnSave(*fit.Progress) error {
	err := l.keepStreams()
	l.at = time.Now()
	return err
}

// OnSaveFailed prints why a checkpoint could not be written.
func (l *loop) OnSaveFailed(_ *fit.Progress, err error) {
	fmt.Fprintln(os.Stderr, "galley: going on:", err)
}

// OnStepsEnd ends the progress bar, and the time limit after a signal: saving may take longer.
func (l *loop) OnStepsEnd(*fit.Progress) {
	elastic.Report(worker.Report{Ending: true})
	l.signals.stopLimit()
	if l.p != nil {
		l.p.finish()
	}
	if t := elastic.SnapshotStats(); t.Count > 0 && job.First() {
		fmt.Println(t)
	}
}
