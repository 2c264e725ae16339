package nn

import "github.com/galley-ml/galley/op"

// mode is whether a model trains: step, where it is not nil, is the number of the training step, an i64
// scalar.
type mode struct{ step func() *op.Tensor }

// Train lets the models that parameters belong to train until restore is called: Dropout clears elements, by
// the number of the step, an i64 scalar, which is asked for where it is needed. Trainers do so around their
// loss; otherwise models evaluate.
func Train(params []*Param, step func() *op.Tensor) (restore func()) {
	old := map[*mode]func() *op.Tensor{}
	for _, p := range params {
		if p.mode == nil {
			continue
		}
		if _, seen := old[p.mode]; !seen {
			old[p.mode], p.mode.step = p.mode.step, step
		}
	}
	return func() {
		for m, before := range old {
			m.step = before
		}
	}
}

// Eval lets the models that parameters belong to evaluate until restore is called, also where they train.
func Eval(params []*Param) (restore func()) { return Train(params, nil) }
