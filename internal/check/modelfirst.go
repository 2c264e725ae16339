package check

import (
	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// compute0 returns the logits, the loss and its gradients before any update, eagerly or on the backend.
func (m *modelCheck) compute0(s *galley.Session) (logits, loss array.Array, grads []array.Array, err error) {
	var all []array.Array
	if m.c.Backend != nil {
		all, err = m.firstOn(m.c.Backend)
	} else {
		values := nn.Values(m.model.Params())
		batch := m.at(0)
		all, err = readAll(m.firstOf(values, s.Tensor(batch[0]), s.Tensor(batch[1])))
	}
	if err != nil {
		return array.Array{}, array.Array{}, nil, err
	}
	return all[0], all[1], all[2:], nil
}

// firstOf returns the same as tensors.
func (m *modelCheck) firstOf(params []*op.Tensor, inputs, labels *op.Tensor) []*op.Tensor {
	logits := m.model.Forward(inputs)
	loss := m.model.Loss(inputs, labels)
	return append([]*op.Tensor{logits, loss}, op.GradOnce([]*op.Tensor{loss}, nil, params)...)
}

func (m *modelCheck) firstOn(b galley.Backend) ([]array.Array, error) {
	params := m.model.Params()
	args, err := readAll(nn.Values(params))
	if err != nil {
		return nil, err
	}
	return executeOn(b, append(args, m.at(0)...), func(in []*op.Tensor) []*op.Tensor {
		defer nn.Bind(params, in[:len(params)])()
		return m.firstOf(in[:len(params)], in[len(params)], in[len(params)+1])
	})
}

func readAll(xs []*op.Tensor) ([]array.Array, error) {
	out := make([]array.Array, len(xs))
	for i, x := range xs {
		a, err := galley.Read(x)
		if err != nil {
			return nil, err
		}
		out[i] = a
	}
	return out, nil
}
