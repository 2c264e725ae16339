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
	// Every is the number of steps per line; 0 means 10.
	Every int
}

// OnStep writes a line if one is due, and for the first and the last step.
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

// OnSave writes the path of the checkpoint.
func (l *Logger) OnSave(p *Progress) error {
	_, err := fmt.Fprintf(l.W, "step %d/%d  saved to %s\n", p.Step, p.Steps, p.Saved)
	return err
}

// OnSaveFailed writes the error.
func (l *Logger) OnSaveFailed(p *Progress, err error) {
	fmt.Fprintf(l.W, "step %d/%d  not saved, going on: %v\n", p.Step, p.Steps, err)
}

// EarlyStop ends a fit when evaluations stop improving.
type EarlyStop struct {
	CallbackBase
	// Metric is the metric to watch; empty means the loss.
	Metric string
	// Patience is the number of evaluations in a row without improvement that are tolerated.
	Patience int
	// MinDelta is the smallest change that counts as an improvement.
	MinDelta float64
	// Higher is set for metrics where more is better.
	Higher bool
	best   float64
	left   int
}

// OnBegin resets the best value.
func (e *EarlyStop) OnBegin(*Progress) error {
	e.best, e.left = math.Inf(1), e.Patience
	return nil
}

// OnEvaluate counts evaluations without improvement.
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
