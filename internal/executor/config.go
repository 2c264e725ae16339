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

// Mode selects how a step runs on one device.
type Mode uint8

// Static traces and compiles the step once, Eager runs it op by op. The results are the same.
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

// Config describes what is trained and how.
type Config struct {
	// Device is the host; it may be nil with a Backend.
	Device *cpu.Device
	Params []*nn.Param
	// Loss computes the scalar to minimise from one batch.
	Loss      func(batch []*op.Tensor) *op.Tensor
	Optimizer optim.Optimizer
	// ClipNorm clips the global gradient norm; 0 turns clipping off.
	ClipNorm float64
	Mode     Mode
	// Compute, if set to a 16-bit dtype, is the dtype of products.
	Compute array.DType
	// Backend, if set, runs compiled steps. Init is a program that computes the initial values of all Params
	// there.
	Backend backend.Backend
	Init    *ir.Func
	// Load, if set, reads boxes of parameters that have no value.
	Load func(p *nn.Param, box mesh.Box, dst array.Array) error
	// Recompute selects what the backward pass on a Backend recomputes: none, selective or full.
	Recompute strategy.Recompute
	// SkipNorm omits the gradient norm if nothing clips.
	SkipNorm bool
	// DetectNaN makes a step fail at the first op that produces a NaN.
	DetectNaN bool
	// Observe, if set, receives the time of each node of a compiled step, and Watch the timeline of a strategy's
	// devices.
	Observe func(n *ir.Node, took time.Duration)
	Watch   func(step.Span)
	// World creates the world of the strategy's devices.
	World func(devices int) (comm.World, error)
	// RankBackends replace the devices of pipeline ranks; Shares split a batch unevenly.
	RankBackends []backend.Backend
	Shares       []Share
	// Strategy, if set, distributes the step over devices; Annotations and Layers request shardings there.
	Strategy    *strategy.Strategy
	Annotations []mesh.Annotation
	Layers      *layout.Layers
	// Prices are the costs by which branches are found; nil means typical in-process devices.
	Prices *spmd.Prices
	// Loaded has the layouts of a batch's tensors as the loader makes them, ZeroAxis the axis that ZeRO
	// shards over, if one is named, and Where the source line that asked for the strategy.
	Loaded   []op.Layout
	ZeroAxis string
	Where    ir.Pos
	// UpdateBarrier makes the update wait for all gradients, so that it may overwrite what they are computed
	// from.
	UpdateBarrier bool
}

// Layout returns the layout of the run on the devices of its strategy or, without one, on the meshes of its
// tensors.
func (c Config) Layout() (*layout.Layout, error) {
	s := strategy.Strategy{Micro: 1}
	if c.Strategy != nil {
		s = *c.Strategy
	}
	if s.Branches > 1 {
		return nil, fmt.Errorf(
			"strategy: branches=%d cannot be combined with a backend or a layout: leave one out",
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

// CheckAnnotated returns an error for settings that parameters on meshes do not support.
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

// Scalar returns a number in the type that a step takes.
func (c Config) Scalar(x float64) array.Array {
	if c.ScalarType().DType == array.F64 {
		return array.Scalar(x)
	}
	return array.Scalar(float32(x))
}

// Value returns a parameter's initial value.
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

// LoadValues reads parameters that have no value, unless the devices will read their own shards.
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

// CheckBatch returns an error for an empty batch.
func CheckBatch(ctx context.Context, batch []array.Array) error {
	if len(batch) == 0 {
		return fmt.Errorf("batch: got none: want inputs, then labels")
	}
	return ctx.Err()
}
