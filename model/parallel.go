package model

import (
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/parallel"
	"github.com/galley-ml/galley/strategy"
)

// Parallel is a model with a plan: ToStatic, Engine and TrainerConfig.Parallel take it.
type Parallel struct {
	Model
	// Optimizer is as it was given to Parallelize.
	Optimizer optim.Optimizer
	Strategy  *strategy.Strategy
	// Annotations is what was asked for parameters by name.
	Annotations []mesh.Annotation
	layers      *layout.Layers
}

// Inputs returns the inputs of the model.
func (p *Parallel) Inputs() int {
	if i, ok := p.Model.(Inputs); ok {
		return i.Inputs()
	}
	return 0
}

// Layers returns the layouts that the plan asks for within layers; nil asks for none.
func (p *Parallel) Layers() *layout.Layers {
	if p == nil {
		return nil
	}
	return p.layers
}

// WithLayers returns the model with layouts of what is computed within.
func (p *Parallel) WithLayers(l *layout.Layers) *Parallel {
	p.layers = l
	return p
}

// Parallelize checks a plan against the names of a model's layers. Nothing is moved: ToStatic, Engine and the
// Trainer build their programs by it.
func Parallelize(m Model, optimizer optim.Optimizer, plan parallel.Plan) (*Parallel, error) {
	if err := Check("parallelize", m); err != nil {
		return nil, err
	}
	layers, err := plan.Bind(m.Params())
	if layers == nil {
		return nil, err
	}
	return &Parallel{Model: m, Optimizer: optimizer, Strategy: &plan.Strategy, Annotations: plan.Annotations,
		layers: layers}, err
}
