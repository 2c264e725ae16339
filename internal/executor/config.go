package executor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/internal/spmd"
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
	// RankBackends compute in place of the devices of ranks of the pipeline; Shares split a batch unevenly.
	RankBackends []backend.Backend
	Shares       []Share
	// Strategy, where set, spreads the step over devices; Annotations and Layers say how parameters and layers
	// lie there.
	Strategy    *strategy.Strategy
	Annotations []mesh.Annotation
	Layers      *layout.Layers
	// Prices is what branches are found by; nil is what devices of this process usually take.
	Prices *spmd.Prices
	// Loaded is where the loader lays the tensors of a batch, ZeroAxis over which axis ZeRO splits, where one is
	// named, and Where the line that asks for all that.
	Loaded   []op.Layout
	ZeroAxis string
	Where    ir.Pos
	// UpdateBarrier is whether the update waits for all gradients: it may then write over what these were
	// computed from.
	UpdateBarrier bool
}

// Layout is the layout of a run of the config on the devices of its strategy or, where there is none, of the
// meshes that its tensors are on.
func (c Config) Layout() (*layout.Layout, error) {
	s := strategy.Strategy{Micro: 1}
	if c.Strategy != nil {
		s = *c.Strategy
	}
	if s.Branches > 1 {
		return nil, fmt.Errorf(
			"strategy: branches=%d: a backend or a layout runs none: want one of both",
			s.Branches,
		)
	}
	return layout.New(layout.Config{Params: c.Params, Strategy: s, Annotations: c.Annotations, Layers: c.Layers,
		Loaded: c.Loaded, ZeroAxis: c.ZeroAxis, Where: c.Where})
}

// Annotated reports whether parameters or batches are on meshes.
func (c Config) Annotated() bool {
	return slices.ContainsFunc(c.Params, func(p *nn.Param) bool {
		if p.Value == nil {
			return false
		}
		_, ok := op.LayoutOf(p.Value)
		return ok
	}) || slices.ContainsFunc(c.Loaded, func(at op.Layout) bool { return at.Mesh != nil })
}

// CheckAnnotated refuses what parameters on meshes cannot be run by.
func (c Config) CheckAnnotated() error {
	for _, p := range c.Params {
		if p.Value == nil || c.Backend == nil && c.Mode == Static {
			continue
		}
		if at, ok := op.LayoutOf(p.Value); ok {
			who := "mode eager: a trainer's steps run op by op on one device: want Static, or a loop of your own"
			if c.Backend != nil {
				who = "a backend lays parameters out itself: want them on no mesh, with a Strategy and Annotations, or " +
					"no Backend"
			}
			return fmt.Errorf("%s is on mesh %v: %s", layout.ParameterText(p), at.Mesh, who)
		}
	}
	return nil
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
	a, err := runtime.Read(p.Value)
	if err != nil {
		return a, fmt.Errorf("parameter %q: %w", p.Name, err)
	}
	return a, nil
}

// LoadValues reads parameters that have no value, unless devices will read their parts.
func (c Config) LoadValues() error {
	if c.Load == nil || c.Device == nil || c.Strategy != nil && c.Backend == nil && c.Strategy.Branches < 2 {
		return nil
	}
	s := c.Device.NewSession()
	for _, p := range c.Params {
		if p.Value != nil {
			continue
		}
		a := array.New(p.Type.DType, p.Type.Shape...)
		box := mesh.Box{Start: make([]int, len(p.Type.Shape)), Size: p.Type.Shape}
		if err := c.Load(p, box, a); err != nil {
			return fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		p.Value = s.Tensor(a).Track()
	}
	return nil
}

// CheckBatch refuses to begin without one.
func CheckBatch(ctx context.Context, batch []array.Array) error {
	if len(batch) == 0 {
		return fmt.Errorf("batch: got none: want inputs, then labels")
	}
	return ctx.Err()
}
