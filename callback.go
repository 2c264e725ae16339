package galley

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// ErrStop, returned by a callback, ends a fit as if it were over.
var ErrStop = errors.New("stop")

// Progress is where a fit is. Callbacks read it.
type Progress struct {
	// Step is how many steps have been taken, of Steps; Epoch counts from 0, of Epochs.
	Step, Steps   int
	Epoch, Epochs int
	// Metrics is of the last step, Evaluation of the last evaluation, Saved the directory of checkpoints once
	// there is one.
	Metrics    Metrics
	Evaluation Evaluation
	Saved      string
	// History is all steps and evaluations so far.
	History *History
	// Err is why a fit ends early, for OnEnd: nil where it does not, or a callback stopped it.
	Err error
}

// Callback is told what a fit does. Embed CallbackBase to implement only some methods. An error ends the fit;
// ErrStop ends it well.
type Callback interface {
	OnBegin(p *Progress) error
	OnEpochBegin(p *Progress) error
	OnStep(p *Progress) error
	OnEvaluate(p *Progress) error
	OnSave(p *Progress) error
	OnEpochEnd(p *Progress) error
	// OnEnd is called once, however a fit ends.
	OnEnd(p *Progress) error
}

// SaveFailer may be implemented by a Callback: it is told at once of a checkpoint that could not be written.
// Training goes on, and the next try is with the state after a later step.
type SaveFailer interface{ OnSaveFailed(p *Progress, err error) }

// CallbackBase does nothing.
type CallbackBase struct{}

// OnBegin does nothing, nor do the others.
func (CallbackBase) OnBegin(*Progress) error      { return nil }
func (CallbackBase) OnEpochBegin(*Progress) error { return nil }
func (CallbackBase) OnStep(*Progress) error       { return nil }
func (CallbackBase) OnEvaluate(*Progress) error   { return nil }
func (CallbackBase) OnSave(*Progress) error       { return nil }
func (CallbackBase) OnEpochEnd(*Progress) error   { return nil }
func (CallbackBase) OnEnd(*Progress) error        { return nil }

// History is what a fit told, step by step.
type History struct {
	Steps       []Metrics
	Evaluations []Evaluation
	// SaveErrors is why checkpoints could not be written.
	SaveErrors []error
}

// Losses is the losses of all steps.
func (h *History) Losses() []float64 {
	list := make([]float64, len(h.Steps))
	for i, m := range h.Steps {
		list[i] = m.Loss
	}
	return list
}

// Logger writes a line for every few steps and for every evaluation.
type Logger struct {
	CallbackBase
	W io.Writer
	// Every is how many steps a line stands for; 0 means 10.
	Every int
}

// OnStep writes a line when it is time to, and for the first and the last step.
func (l *Logger) OnStep(p *Progress) error {
	every := l.Every
	if every <= 0 {
		every = 10
	}
	if m := p.Metrics; p.Step%every == 0 || p.Step == p.Steps || p.Step == 1 {
		_, err := fmt.Fprintf(l.W, "step %d/%d  epoch %d/%d  loss %.4f  norm %.3f  lr %.3g\n", p.Step, p.Steps,
			p.Epoch+1, p.Epochs, m.Loss, m.GradNorm, m.LR)
		return err
	}
	return nil
}

// OnEvaluate writes the loss and the metrics.
func (l *Logger) OnEvaluate(p *Progress) error {
	fmt.Fprintf(l.W, "step %d/%d  evaluation  loss %.4f", p.Step, p.Steps, p.Evaluation.Loss)
	for _, v := range p.Evaluation.Values {
		fmt.Fprintf(l.W, "  %s %.4f", v.Name, v.Value)
	}
	_, err := fmt.Fprintln(l.W)
	return err
}

// OnSave writes where the checkpoint lies.
func (l *Logger) OnSave(p *Progress) error {
	_, err := fmt.Fprintf(l.W, "step %d/%d  saved to %s\n", p.Step, p.Steps, p.Saved)
	return err
}

// OnSaveFailed writes why.
func (l *Logger) OnSaveFailed(p *Progress, err error) {
	fmt.Fprintf(l.W, "step %d/%d  not saved, going on: %v\n", p.Step, p.Steps, err)
}

// EarlyStop ends a fit when evaluations no longer get better.
type EarlyStop struct {
	CallbackBase
	// Metric is what to watch; empty is the loss.
	Metric string
	// Patience is how many evaluations in a row may bring nothing.
	Patience int
	// MinDelta is how much better counts as better.
	MinDelta float64
	// Higher is set for metrics of which more is better.
	Higher bool
	best   float64
	left   int
}

// OnBegin forgets what was best before.
func (e *EarlyStop) OnBegin(*Progress) error {
	e.best, e.left = math.Inf(1), e.Patience
	return nil
}

// OnEvaluate counts evaluations that are no better than the best.
func (e *EarlyStop) OnEvaluate(p *Progress) error {
	x, err := p.Evaluation.Value(e.Metric)
	if err != nil {
		return fmt.Errorf("early stop: %w", err)
	}
	if e.Higher {
		x = -x
	}
	if x < e.best-e.MinDelta {
		e.best, e.left = x, e.Patience
		return nil
	}
	if e.left--; e.left < 0 {
		return ErrStop
	}
	return nil
}
