package executor

import (
	"fmt"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/backend"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// Mode is how a step runs on one device.
type Mode uint8

// A step is traced and compiled once, or runs op by op. The numbers are the same.
const (
	Static Mode = iota
	Eager
)

func (m Mode) String() string {
	if m == Eager {
		return "eager"
	}
	return "static"
}

// Config is what is trained and how.
type Config struct {
	// Device is the host's; with a Backend it may be nil.
	Device *cpu.Device
	Params []*nn.Param
	// Loss is the number to make small, a scalar, computed from one batch.
	Loss      func(batch []*op.Tensor) *op.Tensor
	Optimizer optim.Optimizer
	// ClipNorm limits the norm of all gradients together; 0 does not.
	ClipNorm float64
	Mode     Mode
	// Compute, where it is a 16-bit dtype, is what products compute in.
	Compute array.DType
	// Backend, where set, runs compiled steps. Init is a program that makes the first values of all Params
	// there.
	Backend backend.Backend
	Init    *ir.Func
	// Load, where set, reads boxes of parameters that have no value.
	Load func(p *nn.Param, box mesh.Box, dst array.Array) error
	// Recompute is what the backward pass on a Backend computes again: none, selective or full.
	Recompute strategy.Recompute
	// SkipNorm leaves the gradients' norm out where nothing clips.
	SkipNorm bool
	// DetectNaN ends a step at the first op that makes a NaN.
	DetectNaN bool
	// Observe, where set, is told how long each node of a compiled step took, Watch what devices of a strategy
	// do.
	Observe func(n *ir.Node, took time.Duration)
	Watch   func(step.Span)
	// World makes the world in which the devices of a strategy meet.
	World func(devices int) (comm.World, error)
	// Strategy, where set, spreads the step over devices; Annotations and Layers say how parameters and layers
	// lie there.
	Strategy    *strategy.Strategy
	Annotations []mesh.Annotation
	Layers      *layout.Layers
	// UpdateBarrier is whether the update waits for all gradients: it may then write over what these were
	// computed from.
	UpdateBarrier bool
}

// Layout is the layout of a run of the config on the devices of its strategy.
func (c Config) Layout() (*layout.Layout, error) {
	return layout.New(layout.Config{Params: c.Params, Strategy: *c.Strategy, Annotations: c.Annotations,
		Layers: c.Layers})
}

// Scalar is a number as a step takes it.
func (c Config) Scalar(x float64) array.Array {
	if c.ScalarType().DType == array.F64 {
		return array.Scalar(x)
	}
	return array.Scalar(float32(x))
}

// Value is a parameter's first value.
func Value(p *nn.Param) (array.Array, error) {
	if p.Value == nil {
		return array.Array{}, fmt.Errorf("trainer: parameter %q has no value: make the model with a scope", p.Name)
	}
	a, err := cpu.Read(p.Value)
	if err != nil {
		return a, fmt.Errorf("parameter %q: %w", p.Name, err)
	}
	return a, nil
}
