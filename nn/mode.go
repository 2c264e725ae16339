package nn

import "github.com/galley-ml/galley/op"

// mode is whether a model trains: step, where it is not nil, is the number of the training step, an i64
// scalar.
type mode struct {
	step func() *op.Tensor
	// bound is the names of what a trainer has of the model; nil where nobody does.
	bound map[string]bool
}

// Train lets the models that parameters belong to train until restore is called, as PyTorch's model.train()
// does: Dropout clears elements, by the number of the step, an i64 scalar, which is asked for where it is
// needed, and BatchNorm normalises by the batch and keeps running statistics. Trainers do so around their
// loss; otherwise models evaluate.
func Train(params []*Param, step func() *op.Tensor) (restore func()) {
	return setMode(params, mode{step: step})
}

// TrainBound is like Train with values in the place of the parameters: those of a training step, in which the
// gradient of a buffer is what is to be added to it.
func TrainBound(params []*Param, values []*op.Tensor, step func() *op.Tensor) (restore func()) {
	m := mode{step: step, bound: map[string]bool{}}
	for _, p := range params {
		m.bound[p.Name] = true
	}
	back, unbind := setMode(params, m), Bind(params, values)
	return func() {
		unbind()
		back()
	}
}

// Eval lets the models that parameters belong to evaluate until restore is called, also where they train, as
// PyTorch's model.eval() does.
func Eval(params []*Param) (restore func()) { return Train(params, nil) }

func setMode(params []*Param, to mode) (restore func()) {
	old := map[*mode]mode{}
	for _, p := range params {
		if p.mode == nil {
			continue
		}
		if _, seen := old[p.mode]; !seen {
			old[p.mode], *p.mode = *p.mode, to
		}
	}
	return func() {
		for m, before := range old {
			*m = before
		}
	}
}
