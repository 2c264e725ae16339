package fit

import (
	"fmt"
	"io"
	"math"
)

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

// OnSave writes where the checkpoint is.
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
