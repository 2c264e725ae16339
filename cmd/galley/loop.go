package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
)

// loop takes the steps of a run.
type loop struct {
	*training
	trainer *galley.Trainer
	signals *interrupts
	c       *saver
	p       *progress
	log     *runLog
	valid   *galley.Evaluator
	next    *data.Ahead
	last    *galley.Pending
	// waited is how long the batch of last was waited for.
	waited time.Duration
	// longest is how long a step has taken at most, in nanoseconds; done how many are.
	longest, done atomic.Int64
	// interrupted is set where steps ended for a signal.
	interrupted bool
}

// train takes all steps, or those until a signal comes, and leaves the model with the parameters that it has
// then.
func (t *training) train() error {
	trainer, err := t.newTrainer()
	if err != nil {
		return err
	}
	defer trainer.Close()
	l := &loop{training: t, trainer: trainer, valid: trainer.NewEvaluator()}
	defer l.valid.Close()
	l.signals = catchSignals(func() time.Duration { return time.Duration(l.longest.Load()) }, l.busy)
	defer l.signals.stop()
	if l.c, err = t.checkpoints(trainer); err != nil {
		return err
	}
	defer l.c.close()
	if t.Checkpoint != "" && job.First() {
		if err := t.keepModel(); err != nil {
			return err
		}
	}
	logs := t.Log
	if !job.First() {
		logs = nil
	}
	if l.log, err = openLogs(logs, trainer.Steps()); err != nil {
		return err
	}
	defer l.log.close()
	defer l.watch(t.Watchdog, os.Stderr)()
	return l.run()
}

// run takes the steps and keeps what they have come to, however they end.
func (l *loop) run() error {
	l.p = newProgress(l.trainer.Steps(), l.Steps, l.Batch*l.Seq)
	defer l.p.finish()
	if l.c.sample == 0 {
		l.c.sample = int64(l.trainer.Steps()) * int64(l.Batch)
	}
	first := l.c.sample
	l.next = data.NewAhead(func(i int) ([]array.Array, error) {
		return l.text.From(first + int64(i)*int64(l.Batch)), nil
	}, data.AheadConfig{Count: max(l.Steps-l.trainer.Steps(), 0)})
	defer l.next.Close()
	err := l.steps(l.signals)
	l.signals.heeded()
	l.p.finish()
	if err == nil && !l.interrupted {
		err = l.evaluate(true) // before the last checkpoint, which keeps it
	}
	if err = l.c.finish(context.Background(), err); err != nil {
		return err
	}
	if s := l.signals.signal(); s != 0 && (l.interrupted || job == nil) {
		l.stopped = &stoppedError{s, l.trainer.Steps()}
	}
	return l.trainer.Sync(l.d.NewSession())
}

// steps trains until all steps are done or somebody interrupts. A step's loss is read when the next has
// started, so that a backend never waits for the host.
func (l *loop) steps(ctx context.Context) error {
	for l.trainer.Steps() < l.Steps {
		stop, err := job.Max(int(l.signals.signal())) // all processes stop after the same step
		if err != nil {
			return err
		}
		if stop != 0 {
			l.interrupted = true
			l.signals.agreed(syscall.Signal(stop))
			break
		}
		if err := l.step(); err != nil {
			return err
		}
		if err := l.after(ctx); err != nil {
			return err
		}
	}
	return l.settle()
}

// step starts a step, and tells of the one before.
func (l *loop) step() error {
	start := time.Now()
	batch, waited, err := l.next.Next()
	if err != nil {
		return err
	}
	l.tellProgram(batch)
	next, err := l.trainer.Start(batch...)
	if err != nil {
		return err
	}
	l.c.sample += int64(l.Batch)
	if err := l.settle(); err != nil {
		return err
	}
	l.last, l.waited = next, waited
	l.longest.Store(max(l.longest.Load(), int64(time.Since(start))))
	l.done.Add(1)
	return nil
}

// settle reads the metrics of the step that was started last and tells of it.
func (l *loop) settle() error {
	if l.last == nil {
		return nil
	}
	m, err := l.last.Wait()
	l.last = nil
	if err != nil {
		return err
	}
	m.Wait = l.waited
	if l.LogLosses {
		l.p.finish()
		fmt.Printf("step %d loss %.17g norm %.17g\n", m.Step+1, m.Loss, m.GradNorm)
	}
	l.p.step(m)
	row := galley.NewLogRow(m)
	row.Tokens, row.Seconds = int64(m.Step+1)*int64(l.Batch*l.Seq), l.p.seconds()
	return l.log.write(row)
}

// after does what is due after a step: an evaluation, a checkpoint.
func (l *loop) after(ctx context.Context) error {
	if l.trainer.Steps() == l.Steps {
		return nil // run does it
	}
	if l.ValidEvery > 0 && l.trainer.Steps()%l.ValidEvery == 0 {
		if err := l.settle(); err != nil {
			return err
		}
		if err := l.evaluate(false); err != nil {
			return err
		}
	}
	if !l.c.due() {
		return nil
	}
	if err := l.settle(); err != nil {
		return err
	}
	return l.c.save(ctx)
}

// evaluate tells the loss on held-out text. The checkpoint of the least one is kept.
func (l *loop) evaluate(last bool) error {
	if l.eval == nil {
		return nil
	}
	loss, err := l.valid.Mean(context.Background(), func(i int) []array.Array {
		if i == evalBatches {
			return nil
		}
		return l.eval.From(int64(i) * int64(l.Batch))
	})
	if err != nil {
		return err
	}
	l.p.finish()
	switch {
	case last && l.loss != nil: // no loss of tokens
		fmt.Printf("loss on held-out data %.4f\n", loss)
	case last:
		fmt.Printf("loss on held-out text %.4f, perplexity %.2f\n", loss, math.Exp(loss))
	default:
		fmt.Printf("step %d/%d  loss on held-out text %.4f\n", l.trainer.Steps(), l.Steps, loss)
	}
	nan := math.NaN()
	row := galley.LogRow{Step: l.trainer.Steps(), Loss: nan, GradNorm: nan, LR: nan, ValidLoss: loss,
		Seconds: l.p.seconds(), DataWaitSeconds: nan}
	if err := l.log.write(row); err != nil {
		return err
	}
	return l.c.evaluated(loss)
}
