package fit

import (
	"errors"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/checkpoint"
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
	// Resumed is where the fit continues from; nil where it began.
	Resumed *Resumed
	// History is all steps and evaluations so far.
	History *History
	// Err is why a fit ends early, for OnEnd: nil where it does not, or a callback stopped it.
	Err error
}

// Callback receives what a fit does. Embed CallbackBase to implement only some methods. An error ends the
// fit; ErrStop ends it well.
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
// Training continues, and the next try is with the state after a later step.
type SaveFailer interface{ OnSaveFailed(p *Progress, err error) }

// BatchWatcher may be implemented by a Callback: it is shown every batch before its step begins. An error
// ends the fit without that step; ErrStop ends it well.
type BatchWatcher interface {
	OnBatch(p *Progress, batch []array.Array) error
}

// StepsWatcher may be implemented by a Callback: OnStepsEnd is called when no further step will be taken,
// before the last state is saved.
type StepsWatcher interface{ OnStepsEnd(p *Progress) }

// StateWatcher may be implemented by a Callback: it is given the state after every step for which StateDue is
// true, to copy what it wants of it. The next step begins when OnState has returned. An error ends the fit.
type StateWatcher interface {
	StateDue(step int) bool
	OnState(p *Progress, s checkpoint.State) error
}

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

// Losses returns the losses of all steps.
func (h *History) Losses() []float64 {
	list := make([]float64, len(h.Steps))
	for i, m := range h.Steps {
		list[i] = m.Loss
	}
	return list
}
