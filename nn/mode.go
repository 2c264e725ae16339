package nn

import "github.com/galley-ml/galley/op"

// mode is whether a model is in training: step, if not nil, is the number of the training step, an i64
// scalar.
type mode struct {
	step func() *op.Tensor
	// bound holds the names of the parameters that a trainer has bound; nil if there is none.
	bound map[string]bool
}

// Train puts the models of the given parameters in training mode until restore is called, like PyTorch's
// model.train(): Dropout uses a mask that depends on the step, an i64 scalar that is requested when needed,
// and BatchNorm uses batch statistics and updates the running ones. Trainers do this around their loss;
// otherwise models are in evaluation mode.
func Train(params []*Param, step func() *op.Tensor) (restore func()) {
	return setMode(params, mode{step: step})
}

// TrainBound is like Train with values in place of the parameters: those of a traced training step, where the
// gradient of a buffer is the change to be added to it.
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

// Eval puts the models of the given parameters in evaluation mode until restore is called, like PyTorch's
// model.eval().
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
