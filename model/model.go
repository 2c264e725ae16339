package model

import (
	"fmt"

	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Model is a set of parameters and the forward function that uses them.
type Model interface {
	Params() []*nn.Param
	Forward(inputs ...*op.Tensor) []*op.Tensor
}

// Inputs may be implemented by a Model to say how many of a batch's tensors, counted from the first, are
// inputs; the others are labels. Without it the last tensor of a batch is the labels, and a batch of one has
// no labels.
type Inputs interface{ Inputs() int }

// InputsOf returns how many of n tensors of a batch are a model's inputs.
func InputsOf(m Model, n int) int {
	if i, ok := m.(Inputs); ok && i.Inputs() > 0 {
		return min(i.Inputs(), n)
	}
	return min(max(1, n-1), n)
}

// Func returns a model of parameters and a function that computes with them.
func Func(params []*nn.Param, forward func(inputs []*op.Tensor) []*op.Tensor) Model {
	return &function{params, forward}
}

type function struct {
	params  []*nn.Param
	forward func(inputs []*op.Tensor) []*op.Tensor
}

func (m *function) Params() []*nn.Param                       { return m.params }
func (m *function) Forward(inputs ...*op.Tensor) []*op.Tensor { return m.forward(inputs) }

// Check returns an error for a model without parameters.
func Check(who string, m Model) error {
	if m == nil || len(m.Params()) == 0 {
		return fmt.Errorf(
			"%s: model has no parameters: make its layers with one nn.Init and return its Params()",
			who,
		)
	}
	return nil
}

// DeviceOf returns the device that a model's parameters were created on.
func DeviceOf(who string, m Model) (device *cpu.Device, err error) {
	if err := Check(who, m); err != nil {
		return nil, err
	}
	for _, p := range m.Params() {
		if p.Value == nil {
			return nil, fmt.Errorf("%s: parameter %q has no value: make the model with "+
				"nn.Config{Scope: device.NewSession()}", who, p.Name)
		}
		s, ok := p.Value.Scope().(interface{ Device() *cpu.Device })
		if !ok {
			return nil, fmt.Errorf("%s: parameter %q is traced: make the model with "+
				"nn.Config{Scope: device.NewSession()}", who, p.Name)
		}
		if device == nil {
			device = s.Device()
		}
	}
	return device, nil
}
