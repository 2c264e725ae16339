package fit

import (
	"errors"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/checkpoint"
)

// ErrStop, returned by a callback, ends a fit successfully.
var ErrStop = errors.New("stop")

// Progress describes the state of a fit to callbacks.
type Progress struct {
	// Step is the number of steps taken, of Steps; Epoch counts from 0, of Epochs.
	Step, Steps   int
	Epoch, Epochs int
	// Metrics are those of the last step, Evaluation the last evaluation, Saved the directory of checkpoints
	// once there is one.
	Metrics    Metrics
	Evaluation Evaluation
	Saved      string
	// Resumed describes the checkpoint that the fit continues from; nil for a fresh start.
	Resumed *Resumed
	// History has all steps and evaluations so far.
	History *History
	// Err is why a fit ended early, for OnEnd; nil if it did not, or if a callback stopped it.
	Err error
}

// Callback is called on the events of a fit. Embed CallbackBase to implement only some methods. Returning an
// error ends the fit; ErrStop ends it successfully.
type Callback interface {
	OnBegin(p *Progress) error
	OnEpochBegin(p *Progress) error
	OnStep(p *Progress) error
	OnEvaluate(p *Progress) error
	OnSave(p *Progress) error
	OnEpochEnd(p *Progress) error
	// OnEnd is called once, however the fit ends.
	OnEnd(p *Progress) error
}

// SaveFailer may be implemented by a Callback to learn immediately of a checkpoint that could not be written.
// Training continues, and the next attempt saves the state after a later step.
type SaveFailer interface{ OnSaveFailed(p *Progress, err error) }

// BatchWatcher may be implemented by a Callback to see every batch before its step. An error ends the fit
// without that step; ErrStop ends it successfully.
type BatchWatcher interface {
	OnBatch(p *Progress, batch []array.Array) error
}

// StepsWatcher may be implemented by a Callback: OnStepsEnd is called after the last step, before the final
// state is saved.
type StepsWatcher interface{ OnStepsEnd(p *Progress) }

// StateWatcher may be implemented by a Callback to copy the training state after every step for which
// StateDue is true. The next step waits until OnState returns. An error ends the fit.
type StateWatcher interface {
	StateDue(step int) bool
	OnState(p *Progress, s checkpoint.State) error
}

// CallbackBase implements Callback with methods that do nothing.
type CallbackBase struct{}

// OnBegin does nothing, like the other methods.
func (CallbackBase) OnBegin(*Progress) error      { return nil }
func (CallbackBase) OnEpochBegin(*Progress) error { return nil }
func (CallbackBase) OnStep(*Progress) error       { return nil }
func (CallbackBase) OnEvaluate(*Progress) error   { return nil }
func (CallbackBase) OnSave(*Progress) error       { return nil }
func (CallbackBase) OnEpochEnd(*Progress) error   { return nil }
func (CallbackBase) OnEnd(*Progress) error        { return nil }

// History records the steps and evaluations of a fit.
type History struct {
	Steps       []Metrics
	Evaluations []Evaluation
	// SaveErrors has the errors of checkpoints that could not be written.
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
