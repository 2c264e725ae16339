package galley

import (
	"context"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Model is what is trained: parameters, and what they make of inputs. Language makes one of a language model,
// ModelFunc one of a function.
type Model interface {
	Params() []*nn.Param
	Forward(inputs ...*Tensor) []*Tensor
}

// Inputs may be implemented by a Model: how many of a batch's tensors, the first ones, are its inputs. The
// others are labels. Otherwise the last tensor of a batch is its labels, and all before it are inputs; a
// batch of one has no labels.
type Inputs interface{ Inputs() int }

// Loss is the number to make small, a scalar, made of what a model answers and of a batch's labels.
type Loss func(outputs, labels []*Tensor) *Tensor

// CrossEntropy is the mean cross-entropy of the first output, as logits, and the first labels; a label of
// -100 does not count.
func CrossEntropy(outputs, labels []*Tensor) *Tensor {
	if bad := unpaired("cross-entropy", outputs, labels); bad != nil {
		return bad
	}
	return op.CrossEntropy(outputs[0], labels[0], op.CrossEntropyConfig{})
}

// MeanSquares is the mean of squared differences of the first output and the first labels.
func MeanSquares(outputs, labels []*Tensor) *Tensor {
	if bad := unpaired("mean squares", outputs, labels); bad != nil {
		return bad
	}
	return op.MSELoss(outputs[0], labels[0], "mean")
}

// unpaired is an invalid tensor where there is no output or no labels to compare it with; otherwise nil.
func unpaired(who string, outputs, labels []*Tensor) *Tensor {
	all := append(outputs[:len(outputs):len(outputs)], labels...)
	if len(outputs) > 0 && len(labels) > 0 || len(all) == 0 {
		return nil
	}
	err := fmt.Errorf("model gave %d outputs and the batch has %d labels: want one of each or more: batches are inputs, then labels", len(outputs), len(labels))
	return ir.Invalid(all[0].Scope(), &ir.Error{Op: who, Err: err})
}

// ModelFunc is a model of parameters and a function that computes with them.
func ModelFunc(params []*nn.Param, forward func(inputs []*Tensor) []*Tensor) Model {
	return &modelFunc{params, forward}
}

type modelFunc struct {
	params  []*nn.Param
	forward func(inputs []*Tensor) []*Tensor
}

func (m *modelFunc) Params() []*nn.Param                 { return m.params }
func (m *modelFunc) Forward(inputs ...*Tensor) []*Tensor { return m.forward(inputs) }

// LossModel is a Model that knows its loss: it is taken where no other is given.
type LossModel interface {
	Model
	Loss(inputs, labels []*Tensor) *Tensor
}

// Language is a language model as a Model: ids in, logits out. Its own loss is the cross-entropy of the next
// tokens, and data.Tokens makes its batches. Under a strategy with context parallelism it is arranged as the
// strategy says.
func Language(m models.Model) Model { return &language{model: m} }

// language is a language model, arranged for a strategy where one is set.
type language struct {
	model    models.Model
	strategy *Strategy
}

func (l *language) Params() []*nn.Param { return l.model.Params() }

func (l *language) Forward(in ...*Tensor) []*Tensor {
	return l.arranged(in[0], func(m models.Model) *Tensor { return m.Forward(in[0]) })
}

func (l *language) Loss(in, labels []*Tensor) *Tensor {
	if bad := unpaired("language model", in, labels); bad != nil {
		return bad
	}
	return l.arranged(in[0], func(m models.Model) *Tensor { return m.Loss(in[0], labels[0]) })[0]
}

// arranged calls f with the model for sequences as long as those of ids.
func (l *language) arranged(ids *Tensor, f func(models.Model) *Tensor) []*Tensor {
	m := l.model
	if l.strategy != nil && ids.Err() == nil && len(ids.Shape()) == 2 {
		var err error
		if m, _, err = Arrange(m, *l.strategy, ids.Dim(1)); err != nil {
			return []*Tensor{ir.Invalid(ids.Scope(), &ir.Error{Op: "language model", Err: err})}
		}
	}
	return []*Tensor{f(m)}
}

// under is a model as a strategy trains it.
func under(m Model, s *Strategy) Model {
	if s == nil || s.CP < 2 {
		return m
	}
	switch m := m.(type) {
	case *language:
		return &language{m.model, s}
	case *Parallel:
		p := *m
		p.Model = under(m.Model, s)
		return &p
	}
	return m
}

// ownLoss is a model's own loss.
func ownLoss(m Model) (LossModel, bool) {
	if p, ok := m.(*Parallel); ok {
		m = p.Model
	}
	l, ok := m.(LossModel)
	return l, ok
}

// Loader is batches by number: Len of them are an epoch, and they go on over epochs. data.NewLoader and
// data.Tokens make loaders.
type Loader = fit.Loader

// inputsOf is how many of n tensors of a batch are a model's inputs.
func inputsOf(m Model, n int) int {
	if i, ok := m.(Inputs); ok && i.Inputs() > 0 {
		return min(i.Inputs(), n)
	}
	return min(max(1, n-1), n)
}

// checkBatch refuses to begin without one.
func checkBatch(ctx context.Context, batch []array.Array) error {
	if len(batch) == 0 {
		return fmt.Errorf("batch: got none: want inputs, then labels")
	}
	return ctx.Err()
}

// lossOfModel is a trainer's loss.
func lossOfModel(m Model, loss Loss) func(batch []*Tensor) *Tensor {
	return func(batch []*Tensor) *Tensor {
		n := inputsOf(m, len(batch))
		if own, ok := ownLoss(m); ok && loss == nil {
			return own.Loss(batch[:n], batch[n:])
		}
		return loss(m.Forward(batch[:n]...), batch[n:])
	}
}

// deviceOf is the device on which a model was made.
func deviceOf(who string, m Model) (*Device, error) {
	if m == nil || len(m.Params()) == 0 {
		return nil, fmt.Errorf("%s: model has no parameters: make its layers with one nn.Init and return its Params()", who)
	}
	var device *Device
	for _, p := range m.Params() {
		if p.Value == nil {
			return nil, fmt.Errorf("%s: parameter %q has no value: make the model with nn.Config{Scope: device.NewSession()}", who, p.Name)
		}
		s, ok := p.Value.Scope().(interface{ Device() *Device })
		if !ok {
			return nil, fmt.Errorf("%s: parameter %q is traced: make the model with nn.Config{Scope: device.NewSession()}", who,
				p.Name)
		}
		if device == nil {
			device = s.Device()
		}
	}
	return device, nil
}
